// Clocks. PTX ISA, special registers: %clock64, %globaltimer. Reads are not moved across one another, nor across other
// volatile instructions.
#pragma once

#include <cstdint>

#include <ptx/kernel.cuh>

// Cycles of this multiprocessor since it was reset.
DEVICE uint64_t sm_clock64() {
  uint64_t cycles;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(cycles)::"memory");
  return cycles;
}

// Nanoseconds, the same on all multiprocessors. How often it moves on is the GPU's choice: up to a microsecond.
DEVICE uint64_t globaltimer() {
  uint64_t nanoseconds;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds)::"memory");
  return nanoseconds;
}
