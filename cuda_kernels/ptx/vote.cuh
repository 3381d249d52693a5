// Warp votes and election of a lane. PTX ISA 9.7.13.9: vote.sync; 9.7.13.14: elect.sync. All 32 lanes take part.
#pragma once

#include <cstdint>

#include <ptx/kernel.cuh>

DEVICE bool vote_any(bool predicate) { return __any_sync(0xffffffffu, predicate); }
DEVICE bool vote_all(bool predicate) { return __all_sync(0xffffffffu, predicate); }

// Bit i is lane i's predicate.
DEVICE uint32_t vote_ballot(bool predicate) { return __ballot_sync(0xffffffffu, predicate); }

// True in exactly one lane, always the same one, which need not be lane 0.
DEVICE bool elect_sync() {
  uint32_t elected;
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "elect.sync _|p, 0xffffffff;\n"
      "selp.u32 %0, 1, 0, p;\n"
      "}"
      : "=r"(elected));
  return elected;
}
