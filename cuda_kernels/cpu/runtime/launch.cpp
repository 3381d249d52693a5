#include <runtime/launch.h>

#include <algorithm>
#include <mutex>
#include <numeric>
#include <thread>

#include <runtime/diagnosis.h>
#include <runtime/endless.h>
#include <runtime/global.h>
#include <runtime/options.h>
#include <runtime/progress.h>

namespace cpu {
namespace {

std::mutex launching;

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

// What a GPU of compute capability 9.0 would refuse; empty when nothing.
std::string what_is_wrong(const Launch& launch) {
  constexpr int MAX_THREADS = 1024, MAX_CLUSTER = 16, MAX_GRID = 65535;
  constexpr uint32_t MAX_SHARED = 232448;
  const auto& [grid, cluster, threads, shared_bytes, kernel, params] = launch;
  if (threads < LANES || threads > MAX_THREADS || threads % LANES)
    return text("%d threads: expected a multiple of 32 from 32 to 1024", threads);
  if (const auto& all = bounds(); !all.empty() && threads > all.rbegin()->first)
    return text("%d threads, more than the launch bounds' %d", threads, all.rbegin()->first);
  if (shared_bytes > MAX_SHARED) return text("%u bytes of shared memory, more than %u", shared_bytes, MAX_SHARED);
  if (grid.x < 1 || grid.y < 1 || grid.z < 1) return text("an empty grid (%d, %d, %d)", grid.x, grid.y, grid.z);
  if (std::max(grid.y, grid.z) > MAX_GRID)
    return text("a grid of (%d, %d, %d): expected at most %d for y and z", grid.x, grid.y, grid.z, MAX_GRID);
  if (cluster.x < 1 || cluster.y < 1 || cluster.z < 1 || cluster.x * cluster.y * cluster.z > MAX_CLUSTER)
    return text("a cluster of (%d, %d, %d) blocks: expected 1 to 16", cluster.x, cluster.y, cluster.z);
  if (grid.x % cluster.x || grid.y % cluster.y || grid.z % cluster.z)
    return text("the grid (%d, %d, %d) is no multiple of the cluster (%d, %d, %d)", grid.x, grid.y, grid.z, cluster.x,
                cluster.y, cluster.z);
  return "";
}

}  // namespace

std::map<int, int>& bounds() {
  static std::map<int, int> all;
  return all;
}

bool bound(int threads, int blocks) {
  bounds()[threads] = blocks;
  return true;
}

int blocks_together(int threads) {
  const auto found = bounds().find(threads);
  return found == bounds().end() ? 1 : found->second;
}

int launch_grid(const Launch& launch) {
  const std::lock_guard lock(launching);
  forget_diagnoses();
  if (const std::string wrong = what_is_wrong(launch); !wrong.empty()) {
    report("bad_launch", wrong);
    return 1;
  }
  if (options().checks) begin_outputs();
  const int count =
      launch.grid.x * launch.grid.y * launch.grid.z / (launch.cluster.x * launch.cluster.y * launch.cluster.z);
  const std::vector<int> order = order_of(count);
  const int wanted =
      options().os_threads ? options().os_threads : static_cast<int>(std::thread::hardware_concurrency());
  const int workers = std::clamp(wanted, 1, std::max(count, 1));
  std::vector<Cluster> clusters(workers);  // each runs one cluster after the other
  Progress progress(count, workers);
  const auto work = [&](Cluster& cluster) {
    const Patience patience(cluster);
    for (int i; (i = progress.take()) >= 0;) cluster.run(launch, order[i], progress);
  };
  std::vector<std::thread> threads;
  for (int i = 1; i < workers; ++i) threads.emplace_back(work, std::ref(clusters[i]));
  work(clusters[0]);
  for (std::thread& thread : threads) thread.join();
  for (Cluster& cluster : clusters) cluster.counters.collect_into(all_counters());
  return diagnosed();
}

}  // namespace cpu
