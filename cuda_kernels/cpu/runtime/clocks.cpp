#include <runtime/clocks.h>

#include <algorithm>
#include <bit>

#include <runtime/execution.h>

namespace cpu {

Knowledge knowledge(const Thread& self) {
  Knowledge all = self.warp->known;
  if (const Knowledge* alone = learned_alone(self)) all.learn(*alone);
  return all;
}

void learn(Thread& self, const Knowledge& told) {
  Warp& warp = *self.warp;
  if (learned_alone(self))
    warp.learned[self.lane].learn(told);
  else
    warp.learned[self.lane] = told;
  warp.learners |= 1u << self.lane;
}

void release(Thread& self, Knowledge& told) {
  told.learn(self.warp->known);
  if (const Knowledge* alone = learned_alone(self)) told.learn(*alone);
  told.events[self.agent] = self.cluster->clocks[self.agent]++;
}

void tell_what_others_did(const Thread& self, Knowledge& told) {
  Knowledge known = knowledge(self);
  const auto lanes = known.events.begin() + self.cluster_warp * LANES;
  std::fill(lanes, lanes + LANES, 0);
  told.learn(known);
}

void order_warp(Warp& warp) {
  const int first = warp.threads[0]->agent;
  for (int lane = 0; lane < LANES; ++lane)
    warp.known.events[first + lane] = warp.block->cluster->clocks[first + lane]++;
  for (; warp.learners; warp.learners &= warp.learners - 1)
    warp.known.learn(warp.learned[std::countr_zero(warp.learners)]);
}

}  // namespace cpu
