// CPU twin of cuda_kernels/ptx/vote.cuh.
#pragma once

#include <ptx/kernel.cuh>
#include <runtime/shuffle.h>

DEVICE bool vote_any(bool predicate, Where where = Where::current()) {
  return cpu::ballot(predicate, "vote_any", where) != 0;
}
DEVICE bool vote_all(bool predicate, Where where = Where::current()) {
  return cpu::ballot(predicate, "vote_all", where) == cpu::ALL_LANES;
}
DEVICE uint32_t vote_ballot(bool predicate, Where where = Where::current()) {
  return cpu::ballot(predicate, "vote_ballot", where);
}

// The seed chooses the lane.
DEVICE bool elect_sync(Where where = Where::current()) { return cpu::elect("elect_sync", where); }
