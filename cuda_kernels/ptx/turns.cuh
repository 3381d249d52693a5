// Counters in global memory by which blocks take turns. PTX ISA 9.7.9.8: ld.acquire; 9.7.13.7: red.release. GPU scope.
#pragma once

#include <cstdint>

#include <ptx/kernel.cuh>

// The counter; what its last writers did before they released it can be seen.
DEVICE uint32_t ld_acquire(const uint32_t* counter) {
  uint32_t value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(counter) : "memory");
  return value;
}

// Adds 1, or wraps to 0 when the counter is at `last` or above, once all that this thread has done can be seen. Bulk
// copies are among it that have been waited for.
DEVICE void red_release_inc(uint32_t* counter, uint32_t last) {
  asm volatile("red.release.gpu.global.inc.u32 [%0], %1;" ::"l"(counter), "r"(last) : "memory");
}
