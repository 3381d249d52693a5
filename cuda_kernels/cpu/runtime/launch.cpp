#include <runtime/launch.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <numeric>
#include <thread>

#include <runtime/diagnosis.h>
#include <runtime/global.h>
#include <runtime/options.h>

namespace cpu {
namespace {

// Clusters keep their stacks and buffers from launch to launch.
std::mutex launching;
std::vector<std::unique_ptr<Cluster>> clusters;

std::vector<int> order_of(int count) {
  std::vector<int> order(count);
  std::iota(order.begin(), order.end(), 0);
  uint64_t state = options().seed * 0x9e3779b97f4a7c15ull;
  if (options().seed)
    for (int i = count - 1; i > 0; --i) {
      state = state * 6364136223846793005ull + 1442695040888963407ull;
      std::swap(order[i], order[(state >> 33) % (i + 1)]);
    }
  return order;
}

}  // namespace

int launch_grid(const Launch& launch) {
  const std::lock_guard lock(launching);
  forget_diagnoses();
  if (options().checks) begin_outputs();
  const int count =
      launch.grid.x * launch.grid.y * launch.grid.z / (launch.cluster.x * launch.cluster.y * launch.cluster.z);
  const std::vector<int> order = order_of(count);
  const int wanted =
      options().os_threads ? options().os_threads : static_cast<int>(std::thread::hardware_concurrency());
  const int workers = std::clamp(wanted, 1, std::max(count, 1));
  while (clusters.size() < static_cast<size_t>(workers)) clusters.push_back(std::make_unique<Cluster>());
  std::atomic<int> next = 0;
  const auto work = [&](Cluster& cluster) {
    for (int i; (i = next++) < count && !diagnosed();) cluster.run(launch, order[i]);
  };
  std::vector<std::thread> threads;
  for (int i = 1; i < workers; ++i) threads.emplace_back(work, std::ref(*clusters[i]));
  work(*clusters[0]);
  for (std::thread& thread : threads) thread.join();
  for (auto& cluster : clusters) cluster->counters.collect_into(all_counters());
  if (options().checks && !diagnosed()) end_outputs();
  return diagnosed();
}

}  // namespace cpu
