#include <runtime/barrier.h>

#include <runtime/diagnosis.h>
#include <runtime/options.h>

namespace cpu {
namespace {

void open_when_full(Barrier& barrier, Block& block) {
  if (barrier.arrived < (barrier.expected ? barrier.expected : block.running)) return;
  barrier.arrived = barrier.expected = 0;
  for (Warp* warp : barrier.waiting) {
    warp->known.learn(barrier.brought);
    warp->learners = 0;  // what they learned alone is now known to all
    wake(*warp);
  }
  barrier.waiting.clear();
  std::swap(barrier.arrivals, barrier.last);
  barrier.arrivals.clear();
  barrier.brought.forget(block.cluster->clocks.size());
}

Barrier& arrive(Thread& self, const char* mnemonic, uint32_t number, int expected, Where where) {
  if (number >= BARRIERS || expected % LANES)
    fail("bad_operand", self, mnemonic, where,
         text("barrier %u of %d threads: expected a barrier below %d and whole warps", number, expected, BARRIERS));
  Barrier& barrier = self.block->barriers[number];
  const auto size = [&](int count) { return count ? count : self.cluster->launch->threads; };
  if (barrier.arrived && size(barrier.expected) != size(expected))
    fail("barrier_count_mismatch", self, mnemonic, where,
         text("barrier %u: this warp expects %d threads, those that arrived before it %d", number, size(expected),
              size(barrier.expected)));
  if (expected) barrier.expected = expected;
  if (barrier.expected && barrier.arrived + LANES > barrier.expected)
    fail("barrier_over_arrival", self, mnemonic, where,
         text("barrier %u: %d threads are there already, %d are expected", number, barrier.arrived, barrier.expected));
  for (const auto& [agent, clock] : barrier.last)
    if (options().checks && known_event(self, agent) < clock) {
      report(
          "phase_can_go_by", self, mnemonic, where,
          text("nothing keeps this arrival behind that of warp %d in the last phase of barrier %u, whose place it can "
               "take",
               agent % self.cluster->launch->threads / LANES, number));
      break;
    }
  barrier.arrived += LANES;
  for (Thread* thread : self.warp->threads) release(*thread, barrier.brought);
  const int first = self.warp->threads[0]->agent;
  barrier.arrivals.emplace_back(first, barrier.brought.events[first]);
  return barrier;
}

}  // namespace

void barrier_sync(const char* mnemonic, uint32_t number, int expected, Where where) {
  Warp* warp = gather(mnemonic, where, nullptr);
  if (!warp) return;
  count_warp(*warp, mnemonic, where);
  Thread& self = current();
  Barrier& barrier = arrive(self, mnemonic, number, expected, where);
  barrier.waiting.push_back(warp);
  for (Thread* thread : warp->threads) thread->waiting = {mnemonic, where, number, expected};
  warp->gathering.arrived = 0;
  open_when_full(barrier, *self.block);
  if (self.waiting.mnemonic)
    suspend(self);
  else
    maybe_yield(self);
}

void barrier_arrive(const char* mnemonic, uint32_t number, int expected, Where where) {
  Warp* warp = gather(mnemonic, where, nullptr);
  if (!warp) return;
  count_warp(*warp, mnemonic, where);
  open_when_full(arrive(current(), mnemonic, number, expected, where), *warp->block);
  complete(*warp);
}

void barriers_after_return(Block& block) {
  for (Barrier& barrier : block.barriers)
    if (barrier.arrived && !barrier.expected) open_when_full(barrier, block);
}

void barrier_warp(const char* mnemonic, Where where) {
  Warp* warp = gather(mnemonic, where, nullptr);
  if (!warp) return;
  count_warp(*warp, mnemonic, where);
  order_warp(*warp);
  complete(*warp);
}

}  // namespace cpu
