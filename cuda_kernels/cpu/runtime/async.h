// What is in flight in a cluster. Adversarial: copies land, and matrices are multiplied, only when a wait demands it
// and every other thread has run as far as it can; until then the destination holds poison.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <vector>

#include <runtime/bulk.h>
#include <runtime/execution.h>
#include <runtime/mbarrier.h>
#include <runtime/wgmma.h>

namespace cpu {

// The groups of a thread or a warp, oldest first, and what is not yet committed to one.
template <class T>
struct Groups {
  std::vector<T> open;
  std::deque<std::vector<T>> committed;

  void commit() {
    committed.push_back(std::move(open));
    open.clear();
  }
  // Calls f on all but the newest `pending` groups, and forgets them.
  template <class F>
  void retire(size_t pending, F f) {
    for (; committed.size() > pending; committed.pop_front())
      for (T& one : committed.front()) f(one);
  }
  // Null when nothing is in flight.
  const T* oldest() const {
    for (const std::vector<T>& group : committed)
      if (!group.empty()) return &group.front();
    return open.empty() ? nullptr : &open.front();
  }
  InFlight in_flight() const {
    InFlight all{0, committed.size()};
    for (const T& one : open) all.bytes += bytes_of(one);
    for (const auto& group : committed)
      for (const T& one : group) all.bytes += bytes_of(one);
    return all;
  }
};

// A cp.async.
struct Copy {
  uint32_t offset;  // in shared memory
  const void* source;
  uint32_t bytes;  // the rest of CP_ASYNC_BYTES becomes zero
};
constexpr uint32_t CP_ASYNC_BYTES = 16;

inline uint32_t bytes_of(const Copy&) { return CP_ASYNC_BYTES; }
inline uint32_t bytes_of(const BulkStore& store) { return store.plan.bytes; }

struct Async {
  explicit Async(size_t threads) : copies(threads), stores(threads), wgmmas(threads / LANES) {}

  std::vector<Groups<Copy>> copies;                        // by thread
  std::vector<Groups<BulkStore>> stores;                   // by thread
  std::vector<WgmmaState> wgmmas;                          // by warp
  std::map<std::pair<int, uint32_t>, Mbarrier> mbarriers;  // by rank of the block and offset
  int mbarriers_made = 0;
  std::vector<BulkLoad> loads;
  std::vector<Thread*> pollers;  // that poll until something lands
  int idle_polls = 0;
  uint64_t changes_seen = 0;  // see Progress
};

// 16 bytes, of which `bytes` come from global memory and the rest are zeros.
void cp_async(uint32_t shared, const void* global, uint32_t bytes, const char* mnemonic, Where where);
void cp_async_commit_group(const char* mnemonic, Where where);
// Lands this thread's copies, except those of the newest `pending` committed groups.
void cp_async_wait_group(int pending, const char* mnemonic, Where where);

// When no thread can run: lands a bulk load that some thread waits for, or lets pollers poll again. False: a deadlock.
bool land_one(Cluster& cluster);
// A thread changed global memory: others may be polling it.
void global_changed(Thread& self);
// An atomic operation left global memory unchanged, or a load is about to read it: a thread that finds what it found
// before may be polling for what another thread will write. It continues once the others have run as far as they can;
// `waiting` is what to report if they cannot run at all.
void atomic_polled(Thread& self, const void* pointer, uint32_t value, const Waiting& waiting);
void load_polled(Thread& self, const void* pointer, uint32_t bytes, const Waiting& waiting);

// Nothing that this thread started may still be in flight, except cp.async: that ends with the thread, and whoever
// reads what no wait has covered is told there.
void async_after_return(Thread& self);

}  // namespace cpu
