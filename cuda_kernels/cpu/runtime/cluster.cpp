#include <runtime/cluster.h>

#include <runtime/diagnosis.h>

namespace cpu {
namespace {

void open_when_full(Cluster& cluster) {
  ClusterBarrier& barrier = cluster.barrier;
  int expected = 0;
  for (const auto& block : cluster.blocks) expected += block->running;
  if (!barrier.arrived || barrier.arrived < expected) return;
  barrier.arrived = 0;
  ++barrier.phase;
  barrier.told.learn(barrier.brought);
  barrier.brought.forget(cluster.clocks.size());
  for (Thread* thread : barrier.waiting) wake(*thread);
  barrier.waiting.clear();
}

}  // namespace

void barrier_cluster_arrive(const char* mnemonic, Where where) {
  Warp* warp = gather(mnemonic, where, nullptr);
  if (!warp) return;
  count_warp(*warp, mnemonic, where);
  Thread& self = current();
  ClusterBarrier& barrier = self.cluster->barrier;
  if (warp->cluster_phase > barrier.phase)
    fail("barrier_over_arrival", self, mnemonic, where,
         "the warp arrives twice at the cluster's barrier before it waits");
  warp->cluster_phase = barrier.phase + 1;
  barrier.arrived += LANES;
  for (Thread* thread : warp->threads) release(*thread, barrier.brought);
  open_when_full(*self.cluster);
  complete(*warp);
}

void barrier_cluster_wait(const char* mnemonic, Where where) {
  Warp* warp = gather(mnemonic, where, nullptr);
  if (!warp) return;
  count_warp(*warp, mnemonic, where);
  Thread& self = current();
  ClusterBarrier& barrier = self.cluster->barrier;
  if (!warp->cluster_phase)
    fail("barrier_not_arrived", self, mnemonic, where, "the warp waits at the cluster's barrier without an arrival");
  warp->gathering.arrived = 0;
  while (warp->cluster_phase > barrier.phase) {
    for (Thread* thread : warp->threads) thread->waiting = {mnemonic, where, NO_BARRIER, 0};
    barrier.waiting.push_back(&self);
    suspend(self);
  }
  warp->known.learn(barrier.told);
  complete(*warp);
}

void cluster_barrier_after_return(Cluster& cluster) { open_when_full(cluster); }

void in_step(Warp& warp, const char* mnemonic, Where where, std::array<uint64_t, 3> operands) {
  Warpgroup& group = warp.block->warpgroups[warp.index / WARPS_OF_GROUP];
  const uint64_t number = warp.steps++ - group.complete;
  if (number == group.steps.size()) group.steps.push_back({mnemonic, where, operands, warp.index});
  Step& step = group.steps[number];
  const bool same_place = step.where.line() == where.line() && step.where.column() == where.column();
  if (!same_place || step.operands != operands)
    report("divergence", current(), mnemonic, where,
           text("warp %d of the same warpgroup executed ", step.first_warp) + place(step.mnemonic, step.where) +
               (same_place ? " with other operands" : " instead") + "; all four must execute the same");
  if (++step.warps < WARPS_OF_GROUP) return;
  group.steps.pop_front();
  ++group.complete;
}

void warpgroups_after_return(Thread& self) {
  for (const Warpgroup& group : self.block->warpgroups) {
    if (group.steps.empty()) continue;
    const Step& step = group.steps.front();
    report(
        "divergence", self, step.mnemonic, step.where,
        text("warp %d executed this, but only %d of the four warps of its warpgroup did", step.first_warp, step.warps));
  }
}

void setmaxnreg(int registers, bool increase, const char* mnemonic, Where where) {
  Warp* warp = gather(mnemonic, where, nullptr);
  if (!warp) return;
  count_warp(*warp, mnemonic, where);
  in_step(*warp, mnemonic, where, {static_cast<uint64_t>(registers)});
  Thread& self = current();
  Block& block = *self.block;
  const int more = (registers - warp->registers) * LANES;
  if (increase ? more < 0 : more > 0)
    fail("bad_operand", self, mnemonic, where,
         text("%d registers: the warp has %d, which this instruction cannot %s", registers, warp->registers,
              increase ? "increase to that" : "decrease to that"));
  warp->gathering.arrived = 0;
  while (more > block.free_registers) {
    for (Thread* thread : warp->threads) thread->waiting = {mnemonic, where, NO_BARRIER, more};
    block.waiting_for_registers.push_back(&self);
    suspend(self);
  }
  block.free_registers -= more;
  warp->registers = registers;
  for (Thread* other : block.waiting_for_registers) wake(*other);
  block.waiting_for_registers.clear();
  complete(*warp);
}

}  // namespace cpu
