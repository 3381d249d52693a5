// Clocks. PTX ISA, special registers: %clock64, %globaltimer. Reads are not reordered with each other, nor with other
// volatile instructions.
#pragma once

#include <cstdint>

#include <ptx/kernel.cuh>

// Cycles of this multiprocessor since its last reset.
DEVICE uint64_t sm_clock64() {
  uint64_t cycles;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(cycles)::"memory");
  return cycles;
}

// Nanoseconds, the same on all multiprocessors. The GPU chooses how often it advances: up to a microsecond apart.
DEVICE uint64_t globaltimer() {
  uint64_t nanoseconds;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds)::"memory");
  return nanoseconds;
}
