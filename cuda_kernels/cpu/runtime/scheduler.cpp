// Decides which fiber runs next. Lanes of a warp run one after the other up to their next collective instruction, so
// that a switch costs nanoseconds; the seed chooses which warp goes first.
#include <runtime/execution.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <new>

#include <runtime/async.h>
#include <runtime/barrier.h>
#include <runtime/cluster.h>
#include <runtime/diagnosis.h>
#include <runtime/launch.h>
#include <runtime/options.h>

namespace cpu {
namespace {

constexpr size_t SHARED_ALIGNMENT = 1024;
constexpr int REGISTERS = 65536;  // of a multiprocessor
constexpr uint32_t PREEMPTIONS_IN_256 = 4;

Thread& next_lane(Warp& warp) {
  const int lane = (std::countr_zero(std::rotr(warp.runnable, warp.first_lane)) + warp.first_lane) % LANES;
  return *warp.threads[lane];
}

void thread_main() {
  fiber_entered();
  Thread& self = current();
  const Launch& launch = *self.cluster->launch;
  launch.kernel(launch.params);
  self.has_returned = true;
  Warp& warp = *self.warp;
  warp.returned |= 1u << self.lane;
  if (warp.collective_is_pending()) diverged_by_return(self);
  --self.block->running;
  if (options().counters && warp.returned == ALL_LANES) self.cluster->counters.converge(warp);
  barriers_after_return(*self.block);
  cluster_barrier_after_return(*self.cluster);
  async_after_return(self);
  suspend(self);
  std::abort();  // nobody wakes a thread that has returned
}

}  // namespace

Cluster::Cluster() = default;
Cluster::~Cluster() = default;

uint32_t Cluster::random() {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return static_cast<uint32_t>(random_state >> 32);
}

int Cluster::agent_of_tensor_cores(int cluster_warp) const {
  return static_cast<int>(blocks.size()) * (launch->threads + MBARRIERS) + cluster_warp;
}

int Cluster::agent_of_collectives(int cluster_warp) const {
  const int warps = static_cast<int>(blocks.size()) * launch->threads / LANES;
  return agent_of_tensor_cores(warps) + cluster_warp;
}

void Cluster::set_up(int number) {
  const Dim per{launch->grid.x / launch->cluster.x, launch->grid.y / launch->cluster.y, 1};
  const Dim first{number % per.x * launch->cluster.x, number / per.x % per.y * launch->cluster.y,
                  number / (per.x * per.y) * launch->cluster.z};
  const int count = launch->cluster.x * launch->cluster.y * launch->cluster.z;
  const int warps = launch->threads / LANES;
  abandoned = false;
  is_endless = false;
  reached.forget();
  ticks = 0;
  random_state = (options().seed + 1) * 0x9e3779b97f4a7c15ull + static_cast<uint64_t>(number) * 0xbf58476d1ce4e5b9ull;
  random_state |= 1;
  preempting = options().seed != 0;
  if (!stacks) stacks = std::make_unique<Stacks>(count * launch->threads);
  const size_t agents = count * (launch->threads + MBARRIERS + 2 * warps);
  clocks.resize(agents);
  // Everything that earlier blocks did here is known to the new ones.
  const std::vector<Clock> before = clocks;
  for (Clock& clock : clocks) ++clock;
  async = std::make_unique<Async>(count * launch->threads);
  barrier = {};
  barrier.brought.forget(agents);
  barrier.told.forget(agents);
  blocks.resize(count);
  for (int rank = 0; rank < count; ++rank) {
    if (!blocks[rank]) blocks[rank] = std::make_unique<Block>();
    Block& block = *blocks[rank];
    block.cluster = this;
    block.rank = rank;
    block.ctaid = {first.x + rank % launch->cluster.x, first.y + rank / launch->cluster.x % launch->cluster.y,
                   first.z + rank / (launch->cluster.x * launch->cluster.y)};
    block.running = launch->threads;
    block.free_registers = 0;
    block.waiting_for_registers.clear();
    for (Barrier& barrier : block.barriers) {
      barrier.arrived = barrier.expected = 0;
      barrier.waiting.clear();
      barrier.arrivals.clear(), barrier.last.clear();
      barrier.brought.forget(clocks.size());
    }
    if (options().checks) block.shadow.reset(launch->shared_bytes, count * warps);
    if (!block.shared) {
      const size_t bytes = (launch->shared_bytes + SHARED_ALIGNMENT) / SHARED_ALIGNMENT * SHARED_ALIGNMENT;
      block.shared = {static_cast<std::byte*>(std::aligned_alloc(SHARED_ALIGNMENT, bytes)), std::free};
      block.shared_bytes = launch->shared_bytes;
    }
    std::memset(block.shared.get(), 0xff, launch->shared_bytes);  // NaN in every floating-point type
    block.warps.assign(warps, Warp{});
    block.warpgroups.assign((warps + WARPS_OF_GROUP - 1) / WARPS_OF_GROUP, {});
    for (int tid = 0; tid < launch->threads; ++tid) {
      std::byte* record = stacks->record(rank * launch->threads + tid);
      Thread& thread = *new (record) Thread{};
      Warp& warp = block.warps[tid / LANES];
      thread.cluster = this;
      thread.block = &block;
      thread.warp = &warp;
      thread.tid = tid;
      thread.lane = tid % LANES;
      thread.agent = rank * launch->threads + tid;
      thread.cluster_warp = thread.agent / LANES;
      warp.threads[thread.lane] = &thread;
      prepare(thread.fiber, record, thread_main);
    }
    for (int w = 0; w < warps; ++w) {
      Warp& warp = block.warps[w];
      warp.block = &block;
      warp.index = w;
      warp.known.events = before;
      warp.known.fenced = before;
      warp.runnable = ALL_LANES;
      warp.registers = std::min(REGISTERS / (launch->threads * blocks_together(launch->threads)) / 8 * 8, 256);
      warp.priority = preempting ? random() : ~0u - w;
      warp.first_lane = preempting ? random() % LANES : 0;
    }
  }
}

Warp* Cluster::pick() {
  Warp* best = nullptr;
  for (auto& block : blocks)
    for (Warp& warp : block->warps)
      if (warp.runnable && (!best || warp.priority > best->priority)) best = &warp;
  return best;
}

void Cluster::run(const Launch& launched, int number, Progress& shared) {
  launch = &launched;
  progress = &shared;
  set_up(number);
  while (!abandoned) {
    Warp* warp = pick();
    if (!warp && land_one(*this)) continue;
    if (!warp) break;
    // Now and then, a warp that has just run moves to another place in the order.
    if (preempting && random() % 8 == 0) warp->priority = random();
    switch_fiber(scheduler, next_lane(*warp).fiber);
  }
  if (stopped) report_stopped(*this);
  if (abandoned) return;
  for (auto& block : blocks)
    if (block->running) return deadlocked(*this);
}

void suspend(Thread& self) {
  Warp& warp = *self.warp;
  warp.runnable &= ~(1u << self.lane);
  Fiber& next = warp.runnable ? next_lane(warp).fiber : self.cluster->scheduler;
  switch_fiber(self.fiber, next);
}

void wake(Thread& thread) {
  thread.waiting.mnemonic = nullptr;
  thread.shared_loads = 0;
  thread.warp->runnable |= 1u << thread.lane;
}

void wake(Warp& warp) {
  for (Thread* thread : warp.threads) wake(*thread);
}

void yield(Thread& self) {
  if (self.cluster->preempting) self.warp->priority = self.cluster->random();
  switch_fiber(self.fiber, self.cluster->scheduler);
}

void maybe_yield(Thread& self) {
  if (self.cluster->preempting && self.cluster->random() % 256 < PREEMPTIONS_IN_256) yield(self);
}

void abandon(Thread& self) {
  self.cluster->abandoned = true;
  switch_fiber(self.fiber, self.cluster->scheduler);
  std::abort();
}

Warp* gather(const char* mnemonic, Where where, void* operands) {
  Thread& self = current();
  goes_on(self, mnemonic, where);
  Warp& warp = *self.warp;
  Gathering& gathering = warp.gathering;
  if (!gathering.arrived) {
    gathering.mnemonic = mnemonic;
    gathering.where = where;
    if (warp.returned) diverged_by_return(self);
  } else if (gathering.where.line() != where.line() || gathering.where.column() != where.column()) {
    diverged(self, mnemonic, where);
  }
  gathering.arrived |= 1u << self.lane;
  gathering.operands[self.lane] = operands;
  if (gathering.arrived == ALL_LANES) {
    if (warp.has_waited) {  // every lane has waited when any of them goes on
      const int agent = self.cluster->agent_of_collectives(self.cluster_warp);
      warp.known.events[agent] = self.cluster->clocks[agent]++;
      warp.has_waited = false;
    }
    if (options().counters) self.cluster->counters.converge(warp);
    return &warp;
  }
  self.waiting = {mnemonic, where, NO_BARRIER, 0};
  suspend(self);
  return nullptr;
}

void complete(Warp& warp) {
  warp.gathering.arrived = 0;
  warp.runnable = ALL_LANES;
  Thread& self = current();
  if (!self.cluster->preempting) return;
  warp.first_lane = self.cluster->random() % LANES;
  maybe_yield(self);
}

void count_warp(const Warp& warp, const char* mnemonic, Where where) {
  if (options().counters)
    warp.block->cluster->counters.count(mnemonic, where, Path::none, 0, {.mask = ALL_LANES}, warp);
}

void count_thread(const char* mnemonic, Where where) {
  Thread& self = current();
  goes_on(self, mnemonic, where);
  if (options().counters) self.cluster->counters.count_lane(self, mnemonic, where, Path::none, 0, 0, nullptr);
}

void count_wait(const char* mnemonic, Where where, InFlight before, InFlight left, Whose whose) {
  const Thread& self = current();
  if (options().counters) self.cluster->counters.count_wait(self, mnemonic, where, before, left, whose);
}

}  // namespace cpu
