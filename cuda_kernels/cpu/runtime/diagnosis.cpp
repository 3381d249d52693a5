#include <runtime/diagnosis.h>

#include <runtime/async.h>
#include <runtime/global.h>
#include <runtime/memory.h>
#include <runtime/progress.h>

#include <algorithm>
#include <bit>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <tuple>
#include <vector>

namespace cpu {
namespace {

constexpr size_t KEPT = 16;

std::mutex mutex;
std::set<std::tuple<std::string, std::string, unsigned>> seen;  // name, file, line
std::vector<std::string> kept;
std::string joined;

const char* stem(const char* path) {
  const char* slash = std::strrchr(path, '/');
  return slash ? slash + 1 : path;
}

std::string lanes(uint32_t mask) {
  if (mask == ALL_LANES) return "all lanes";
  if (std::popcount(mask) == 1) return text("lane %d", std::countr_zero(mask));
  return text("%d lanes (mask 0x%08x)", std::popcount(mask), mask);
}

}  // namespace

std::string text(const char* format, ...) {
  char buffer[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(buffer, sizeof buffer, format, arguments);
  va_end(arguments);
  return buffer;
}

std::string place(const char* mnemonic, Where where) {
  return text("%s:%u%s%s", stem(where.file_name()), static_cast<unsigned>(where.line()), *mnemonic ? " " : "",
              mnemonic);
}

void report(const char* name, const Thread& thread, const char* mnemonic, Where where, const std::string& what) {
  const std::lock_guard lock(mutex);
  if (kept.size() >= KEPT || !seen.insert({name, where.file_name(), where.line()}).second) return;
  const Dim& block = thread.block->ctaid;
  kept.push_back(std::string(name) + ": " + what +
                 text(" [%s, block (%d, %d, %d), warp %d, lane %d]", place(mnemonic, where).c_str(), block.x, block.y,
                      block.z, thread.warp->index, thread.lane));
}

void report(const char* name, const std::string& what) {
  const std::lock_guard lock(mutex);
  if (kept.size() < KEPT) kept.push_back(std::string(name) + ": " + what);
}

void fail(const char* name, Thread& thread, const char* mnemonic, Where where, const std::string& what) {
  report(name, thread, mnemonic, where, what);
  abandon(thread);
}

void diverged(Thread& self, const char* mnemonic, Where where) {
  const Gathering& gathering = self.warp->gathering;
  fail("divergence", self, mnemonic, where,
       lanes(gathering.arrived) + " of the warp wait at " + place(gathering.mnemonic, gathering.where) +
           ", which all must execute together");
}

void diverged_by_return(Thread& self) {
  const Warp& warp = *self.warp;
  fail("divergence", self, warp.gathering.mnemonic, warp.gathering.where,
       lanes(warp.returned) + " of the warp returned from the kernel, but all must execute this together");
}

namespace {

bool is_gathering(const Thread& thread) { return thread.warp->gathering.arrived >> thread.lane & 1; }

// What a thread waits for, in words; `name` becomes more precise where the barrier's state allows it.
std::string state_of(const Thread& thread, std::string& name) {
  const Waiting& waiting = thread.waiting;
  const Gathering& gathering = thread.warp->gathering;
  // No divergence: the other lanes wait for something else that does not come, and would arrive here afterwards.
  if (is_gathering(thread)) return text(" (%d of 32 lanes there)", std::popcount(gathering.arrived));
  if (waiting.object < BARRIERS) {
    const Barrier& barrier = thread.block->barriers[waiting.object];
    return text(" (barrier %u, %d of %d threads there)", waiting.object, barrier.arrived,
                barrier.expected ? barrier.expected : thread.block->running);
  }
  if (waiting.object == NO_BARRIER) {
    if (!waiting.detail) return "";
    if (name == "deadlock") name = "register_pool_exhausted";
    return text(" (needs %lld registers, the pool has %d)", static_cast<long long>(waiting.detail),
                thread.block->free_registers);
  }
  if (waiting.object == GLOBAL_MEMORY) {
    if (name == "deadlock" && thread.cluster->progress->left()) name = "blocks_not_resident";
    const auto* address = reinterpret_cast<const std::byte*>(waiting.detail);
    return text(" (global address %p, which holds %u, ", static_cast<const void*>(address), thread.answer) +
           nearest_tensor(address) + ")";
  }
  if (waiting.object == SHARED_MEMORY)
    return text(" (shared address 0x%llx, which holds %u)", static_cast<long long>(waiting.detail), thread.answer);
  const auto& mbarriers = thread.cluster->async->mbarriers;
  const auto found = mbarriers.find({thread.block->rank, waiting.object - SHARED_BASE});
  if (found == mbarriers.end()) return "";
  const Mbarrier& mbarrier = found->second;
  if (!mbarrier.pending && mbarrier.bytes && name == "deadlock") name = "mbarrier_wrong_bytes";
  return text(" (mbarrier 0x%x, parity %lld: its phase %llu lacks %u of %u arrivals and %lld bytes)", waiting.object,
              static_cast<long long>(waiting.detail), static_cast<unsigned long long>(mbarrier.phase), mbarrier.pending,
              mbarrier.count, static_cast<long long>(mbarrier.bytes));
}

}  // namespace

namespace {

// The waiting threads of a cluster in words. `name` becomes more precise where a state allows it; `first` is the thread
// whose wait may be the cause.
std::string who_waits(const Cluster& cluster, std::string& name, const Thread*& first) {
  // Lanes that wait at the same place for the same thing are reported together, and so are warps of such lanes.
  struct Waiters {
    std::string block, what;
    std::vector<int> warps;
  };
  std::vector<Waiters> waiters;
  for (auto& block : cluster.blocks) {
    const std::string rank = cluster.blocks.size() > 1 ? text(" of block rank %d", block->rank) : "";
    for (const Warp& warp : block->warps) {
      std::map<std::string, uint32_t> groups;
      for (const Thread* thread : warp.threads) {
        const uint32_t lane = 1u << thread->lane;
        if (thread->has_returned) continue;
        if (warp.runnable & lane) {
          groups["not waiting"] |= lane;
          continue;
        }
        // Lanes at a collective instruction wait for the other lanes, and are not the cause.
        if (!first || (is_gathering(*first) && !is_gathering(*thread))) first = thread;
        const std::string at = "at " + place(thread->waiting.mnemonic, thread->waiting.where) + state_of(*thread, name);
        groups[at] |= lane;
      }
      if (warp.returned) groups["at the end of the kernel"] |= warp.returned;
      for (const auto& [at, mask] : groups) {
        const std::string what = lanes(mask) + " " + at;
        auto same = std::find_if(waiters.begin(), waiters.end(),
                                 [&](const Waiters& other) { return other.block == rank && other.what == what; });
        if (same == waiters.end()) same = waiters.insert(same, {rank, what, {}});
        same->warps.push_back(warp.index);
      }
    }
  }
  std::string who;
  for (const Waiters& group : waiters) {
    who += who.empty() ? "" : "; ";
    who += group.warps.size() == 1 ? "warp" : "warps";
    for (size_t i = 0; i < group.warps.size(); ++i) who += text("%s %d", i ? "," : "", group.warps[i]);
    who += group.block + ": " + group.what;
  }
  return who;
}

}  // namespace

std::string who_waits(const Cluster& cluster) {
  std::string name;
  const Thread* first = nullptr;
  return who_waits(cluster, name, first);
}

void deadlocked(Cluster& cluster) {
  std::string name = "deadlock";
  const Thread* first = nullptr;
  std::string who = who_waits(cluster, name, first);
  if (name == "blocks_not_resident")
    who += text("; not started: %d %s, because here as many run at once as there are OS threads",
                cluster.progress->left(), cluster.blocks.size() > 1 ? "clusters" : "blocks");
  report(name.c_str(), *first, first->waiting.mnemonic, first->waiting.where, "nobody can go on: " + who);
}

bool diagnosed() {
  const std::lock_guard lock(mutex);
  return !kept.empty();
}

void forget_diagnoses() {
  const std::lock_guard lock(mutex);
  seen.clear();
  kept.clear();
}

const char* diagnoses() {
  const std::lock_guard lock(mutex);
  joined.clear();
  for (const std::string& one : kept) joined += one + "\n";
  return joined.c_str();
}

}  // namespace cpu
