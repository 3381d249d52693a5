#include <runtime/mbarrier.h>

#include <map>
#include <set>

#include <runtime/async.h>
#include <runtime/diagnosis.h>
#include <runtime/memory.h>
#include <runtime/options.h>

namespace cpu {
namespace {

constexpr uint64_t MARK = 0x7fbaddedba441e55;  // what an mbarrier's eight bytes hold

// Bulk loads that are still to fill the block's shared memory.
InFlight loads_in_flight(const Block& block) {
  InFlight all;
  for (const BulkLoad& load : block.cluster->async->loads)
    if (load.block == &block) all.bytes += load.plan.bytes, ++all.groups;
  return all;
}

bool is_complete(const Mbarrier& mbarrier, uint32_t parity) { return (mbarrier.phase & 1) != (parity & 1); }

// Whoever completes a phase must know that all warps have waited for the one before it, and will not wait for it again.
// The lanes of a warp poll together and get one answer: knowing of one is enough.
void check_passed(const Cluster& cluster, Mbarrier& mbarrier) {
  const std::vector<Clock>& known = mbarrier.told.events;
  std::set<const Thread*> later;
  std::map<const Warp*, const PassedWait*> unknown;  // null where one is known
  for (auto wait = mbarrier.passed.rbegin(); wait != mbarrier.passed.rend(); ++wait) {
    if (!later.insert(wait->thread).second) continue;
    const bool is_known = known[wait->thread->agent] >= wait->at ||
                          known[cluster.agent_of_collectives(wait->thread->cluster_warp)] >= wait->of_collectives;
    const auto& [at, is_first] = unknown.try_emplace(wait->thread->warp, &*wait);
    if (is_known) at->second = nullptr;
  }
  for (const auto& [warp, wait] : unknown)
    if (wait)
      report("phase_can_go_by", *wait->thread, wait->mnemonic, wait->where,
             text("nothing keeps the next phase of the mbarrier at shared address 0x%x from completing before this "
                  "wait, which then waits for one more",
                  mbarrier.offset));
  mbarrier.passed.clear();
}

// Whoever waits must know that the phase before is complete: as long as it is not, the wait passes at once, because a
// parity does not tell the phase that is waited for from the one two before.
void pass(Thread& self, Mbarrier& mbarrier, const char* mnemonic, Where where) {
  if (options().checks && known_event(self, mbarrier.agent) < mbarrier.completed_before)
    report("wait_can_pass_early", self, mnemonic, where,
           text("nothing completes the phase before the one waited for, at the mbarrier at shared address 0x%x, ahead "
                "of this wait, which then passes at once",
                mbarrier.offset));
  learn(self, mbarrier.told);
  if (!options().checks) return;
  const std::vector<Clock>& clocks = self.cluster->clocks;
  mbarrier.passed.push_back(
      {&self, clocks[self.agent], clocks[self.cluster->agent_of_collectives(self.cluster_warp)], mnemonic, where});
  self.warp->has_waited = true;
}

void advance(Cluster& cluster, Mbarrier& mbarrier) {
  if (mbarrier.pending || mbarrier.bytes) return;
  mbarrier.brought.events[mbarrier.agent] = cluster.clocks[mbarrier.agent]++;
  mbarrier.completed_before = mbarrier.told.events[mbarrier.agent];
  mbarrier.told.learn(mbarrier.brought);
  check_passed(cluster, mbarrier);
  mbarrier.brought.forget(cluster.clocks.size());
  mbarrier.pending = mbarrier.count;
  ++mbarrier.phase;
  cluster.async->idle_polls = 0;
  for (Thread* thread : mbarrier.waiting) wake(*thread);
  mbarrier.waiting.clear();
}

}  // namespace

void mbarrier_init(uint32_t address, uint32_t count, const char* mnemonic, Where where) {
  count_thread(mnemonic, where);
  Thread& self = current();
  Async& async = *self.cluster->async;
  shared_write(address, &MARK, sizeof MARK, mnemonic, where);
  const Place at = locate(address, sizeof MARK, mnemonic, where);
  const auto key = std::pair(at.block->rank, at.offset);
  if (async.mbarriers.contains(key))
    fail("mbarrier_reinitialized", self, mnemonic, where,
         text("shared address 0x%x holds an mbarrier already, and it was not invalidated", address));
  if (!count || count > 0xfffff)
    fail("bad_operand", self, mnemonic, where, text("%u arrivals: expected 1 to 1048575", count));
  if (async.mbarriers_made == MBARRIERS * static_cast<int>(self.cluster->blocks.size()))
    fail("bad_operand", self, mnemonic, where, text("more than %d mbarriers in a block", MBARRIERS));
  const int threads = self.cluster->launch->threads * static_cast<int>(self.cluster->blocks.size());
  Mbarrier& mbarrier = async.mbarriers[key];
  mbarrier.block = at.block;
  mbarrier.offset = at.offset;
  mbarrier.count = mbarrier.pending = count;
  mbarrier.agent = threads + async.mbarriers_made++;
  mbarrier.maker = self.agent;
  mbarrier.made = self.cluster->clocks[self.agent];
  mbarrier.made_at = where;
  mbarrier.brought.forget(self.cluster->clocks.size());
  mbarrier.told.forget(self.cluster->clocks.size());
}

Mbarrier& find_mbarrier(Thread& self, uint32_t address, const char* mnemonic, Where where) {
  const Place at = locate(address, sizeof MARK, mnemonic, where);
  auto& mbarriers = self.cluster->async->mbarriers;
  const auto found = mbarriers.find({at.block->rank, at.offset});
  if (found == mbarriers.end())
    fail("mbarrier_not_initialized", self, mnemonic, where,
         text("there is no mbarrier at shared address 0x%x: nobody initialized one yet", address & 0xffffff));
  if (load<uint64_t>(at.bytes) != MARK)
    fail("mbarrier_overwritten", self, mnemonic, where,
         text("the mbarrier at shared address 0x%x was overwritten with data", address & 0xffffff));
  Mbarrier& mbarrier = found->second;
  if (mbarrier.maker != self.agent && known_event(self, mbarrier.maker) < mbarrier.made)
    report("race", self, mnemonic, where,
           text("the mbarrier at shared address 0x%x is used with no barrier after its initialization at ",
                address & 0xffffff) +
               place("", mbarrier.made_at));
  return mbarrier;
}

void mbarrier_inval(uint32_t address, const char* mnemonic, Where where) {
  Thread& self = current();
  const Mbarrier& mbarrier = find_mbarrier(self, address, mnemonic, where);
  if (!mbarrier.waiting.empty())
    fail("mbarrier_reinitialized", self, mnemonic, where, "threads wait on the mbarrier that is invalidated");
  self.cluster->async->mbarriers.erase({mbarrier.block->rank, mbarrier.offset});
}

void mbarrier_arrive(uint32_t address, int64_t expected_bytes, bool arrives, const char* mnemonic, Where where,
                     Order order) {
  count_thread(mnemonic, where);
  Thread& self = current();
  Mbarrier& mbarrier = find_mbarrier(self, address, mnemonic, where);
  mbarrier.bytes += expected_bytes;
  if (arrives) {
    if (!mbarrier.pending)
      fail("mbarrier_over_arrival", self, mnemonic, where,
           text("all %u arrivals of phase %llu of the mbarrier at shared address 0x%x were there already (it still "
                "waits for %lld bytes)",
                mbarrier.count, static_cast<unsigned long long>(mbarrier.phase), address & 0xffffff,
                static_cast<long long>(mbarrier.bytes)));
    --mbarrier.pending;
    if (order == Order::release)
      release(self, mbarrier.brought);
    else
      tell_what_others_did(self, mbarrier.brought);
  }
  advance(*self.cluster, mbarrier);
  maybe_yield(self);
}

void complete_bytes(Cluster& cluster, Mbarrier& mbarrier, int64_t bytes) {
  mbarrier.bytes -= bytes;
  advance(cluster, mbarrier);
}

bool mbarrier_test_wait(uint32_t address, uint32_t parity, const char* mnemonic, Where where) {
  Thread& self = current();
  Mbarrier& mbarrier = find_mbarrier(self, address, mnemonic, where);
  if (!is_complete(mbarrier, parity)) {
    self.waiting = {mnemonic, where, address, static_cast<int64_t>(parity)};
    self.cluster->async->pollers.push_back(&self);
    suspend(self);
    return false;
  }
  const InFlight loads = loads_in_flight(*self.block);
  count_wait(mnemonic, where, loads, loads, Whose::block);
  pass(self, mbarrier, mnemonic, where);
  return true;
}

bool mbarrier_try_wait(uint32_t address, uint32_t parity, const char* mnemonic, Where where) {
  Thread& self = current();
  Mbarrier& mbarrier = find_mbarrier(self, address, mnemonic, where);
  const InFlight before = loads_in_flight(*self.block);
  if (!is_complete(mbarrier, parity)) {
    self.waiting = {mnemonic, where, address, static_cast<int64_t>(parity)};
    mbarrier.waiting.push_back(&self);
    suspend(self);
    // The time limit may pass just before the phase completes: a caller that does not try again is wrong.
    if (self.cluster->preempting && self.cluster->random() % 4 == 0) {
      count_thread(mnemonic, where);
      return false;
    }
  }
  count_wait(mnemonic, where, before, loads_in_flight(*self.block), Whose::block);
  pass(self, mbarrier, mnemonic, where);
  return true;
}

void fence_proxy_async(const char* mnemonic, Where where) {
  count_thread(mnemonic, where);
  Thread& self = current();
  // What others did is theirs to fence; what this thread does from now on is not covered.
  self.warp->known.fenced[self.agent] = self.cluster->clocks[self.agent]++;
  for (auto& [key, mbarrier] : self.cluster->async->mbarriers)
    if (mbarrier.maker == self.agent) mbarrier.is_fenced = true;
}

void fence_mbarrier_init(const char* mnemonic, Where where) {
  count_thread(mnemonic, where);
  Thread& self = current();
  for (auto& [key, mbarrier] : self.cluster->async->mbarriers)
    if (mbarrier.maker == self.agent) mbarrier.is_fenced = true;
}

}  // namespace cpu
