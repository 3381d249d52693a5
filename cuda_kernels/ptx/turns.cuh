// Counters in global memory by which blocks take turns. PTX ISA 9.7.9.8: ld.acquire; 9.7.13.6: red.release. GPU scope.
#pragma once

#include <cstdint>

#include <ptx/kernel.cuh>

// The counter. This thread then sees what the writers of that value did before they released it.
DEVICE uint32_t ld_acquire(const uint32_t* counter) {
  uint32_t value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(counter) : "memory");
  return value;
}

// Adds 1, or wraps to 0 when the counter is at `last` or above. Whoever acquires the new value sees what this thread
// did before, its bulk copies included if it has waited for them to complete.
DEVICE void red_release_inc(uint32_t* counter, uint32_t last) {
  asm volatile("red.release.gpu.global.inc.u32 [%0], %1;" ::"l"(counter), "r"(last) : "memory");
}
