#include <runtime/async.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include <runtime/cluster.h>
#include <runtime/diagnosis.h>
#include <runtime/memory.h>
#include <runtime/options.h>
#include <runtime/progress.h>

namespace cpu {

constexpr int IDLE_POLLS = 1000;   // polling rounds without an event: nothing will come
constexpr uint32_t REREADS = 256;  // identical loads in a row: their thread is polling

void cp_async(uint32_t shared, const void* global, uint32_t bytes, const char* mnemonic, Where where) {
  Thread& self = current();
  if (bytes > CP_ASYNC_BYTES)
    fail("bad_operand", self, mnemonic, where, text("%u bytes of global memory: expected 0 to 16", bytes));
  copy_to_shared(shared, global, CP_ASYNC_BYTES, bytes, mnemonic, where);
  self.cluster->async->copies[self.agent].open.push_back({shared - SHARED_BASE, global, bytes});
}

void cp_async_commit_group(const char* mnemonic, Where where) {
  count_thread(mnemonic, where);
  Thread& self = current();
  self.cluster->async->copies[self.agent].commit();
}

void cp_async_wait_group(int pending, const char* mnemonic, Where where) {
  Thread& self = current();
  Block& block = *self.block;
  auto& copies = self.cluster->async->copies[self.agent];
  const InFlight before = copies.in_flight();
  copies.retire(pending, [&](const Copy& copy) {
    std::byte* destination = block.shared.get() + copy.offset;
    std::memset(destination, 0, CP_ASYNC_BYTES);
    std::memcpy(destination, copy.source, copy.bytes);
    if (options().checks)
      block.shadow.land(copy.offset, CP_ASYNC_BYTES, static_cast<uint16_t>(self.agent),
                        self.cluster->clocks[self.agent], Proxy::generic);
  });
  count_wait(mnemonic, where, before, copies.in_flight(), Whose::lane);
}

namespace {

// May blocks of other OS threads still write what a block of this one polls?
bool others_go_on(Cluster& cluster) {
  const auto& pollers = cluster.async->pollers;
  const auto asks_memory = [](const Thread* thread) { return thread->waiting.object == GLOBAL_MEMORY; };
  if (std::ranges::none_of(pollers, asks_memory)) return false;
  std::this_thread::yield();
  cluster.ticks = 0;  // it is the others' time now; Progress sees whether they get on
  return !cluster.progress->stands_still(cluster, cluster.async->changes_seen);
}

}  // namespace

bool land_one(Cluster& cluster) {
  Async& async = *cluster.async;
  std::vector<size_t> wanted;
  for (size_t i = 0; i < async.loads.size(); ++i)
    if (!async.loads[i].mbarrier->waiting.empty() || !async.pollers.empty()) wanted.push_back(i);
  if (!wanted.empty()) {
    const size_t chosen = wanted[cluster.preempting ? cluster.random() % wanted.size() : 0];
    BulkLoad load = std::move(async.loads[chosen]);
    async.loads.erase(async.loads.begin() + chosen);
    async.idle_polls = 0;
    land(cluster, load);
  }
  const bool polled = !async.pollers.empty() && (async.idle_polls++ < IDLE_POLLS || others_go_on(cluster));
  if (polled) {
    for (Thread* thread : async.pollers) wake(*thread);
    async.pollers.clear();
  }
  return !wanted.empty() || polled;
}

void global_changed(Thread& self) {
  self.cluster->async->idle_polls = 0;
  self.cluster->progress->changed();
}

namespace {

// How many times in a row this instruction of the thread has found these bytes at `pointer`.
uint32_t times_found(Thread& self, const void* pointer, const void* bytes, size_t count, Where where) {
  Finding now{pack(where), 1, pointer};
  std::memcpy(now.value.data(), bytes, std::min(count, now.value.size()));
  const auto is_this = [&](const Finding& other) { return other.site == now.site && other.pointer == pointer; };
  const auto known = std::ranges::find_if(self.findings, is_this);
  if (known != self.findings.end() && known->value == now.value) return ++known->times;
  self.cluster->async->idle_polls = 0;  // it polls something else, or found something new
  if (known != self.findings.end())
    *known = now;
  else
    self.findings[self.oldest_finding++ % self.findings.size()] = now;
  return 1;
}

void ask_again(Thread& self, uint32_t answer, const Waiting& waiting) {
  self.waiting = waiting;
  self.answer = answer;
  self.cluster->async->pollers.push_back(&self);
  suspend(self);
}

}  // namespace

void atomic_polled(Thread& self, const void* pointer, uint32_t value, const Waiting& waiting) {
  times_found(self, pointer, &value, sizeof value, waiting.where);
  ask_again(self, value, waiting);
}

void load_polled(Thread& self, const void* pointer, uint32_t bytes, const Waiting& waiting) {
  if (times_found(self, pointer, pointer, bytes, waiting.where) % REREADS) return;
  uint32_t answer = 0;
  std::memcpy(&answer, pointer, std::min<size_t>(bytes, sizeof answer));
  ask_again(self, answer, waiting);
}

void async_after_return(Thread& self) {
  Async& async = *self.cluster->async;
  bulk_after_return(self);
  Warp& warp = *self.warp;
  if (warp.returned == ALL_LANES) wgmma_after_return(self, async.wgmmas[self.cluster_warp]);
  if (self.block->running) return;
  warpgroups_after_return(self);
  for (const BulkLoad& load : async.loads)
    if (load.block == self.block)
      report("copy_in_flight", self, load.mnemonic, load.where,
             text("the block returned while this load may still write %u bytes at shared address 0x%x: nobody waited "
                  "for it",
                  load.plan.bytes, load.plan.address));
}

}  // namespace cpu
