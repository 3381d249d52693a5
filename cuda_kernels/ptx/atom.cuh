// Atomic operations on counters in global memory, for tile schedulers. PTX ISA 9.7.13.5: atom. Relaxed, GPU scope.
#pragma once

#include <cstdint>

#include <ptx/kernel.cuh>

// Returns the old value.
DEVICE uint32_t atom_add(uint32_t* counter, uint32_t value) {
  uint32_t before;
  asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], %2;" : "=r"(before) : "l"(counter), "r"(value) : "memory");
  return before;
}

// Adds 1, or wraps to 0 when the counter is at `last` or above; returns the old value.
DEVICE uint32_t atom_inc(uint32_t* counter, uint32_t last) {
  uint32_t before;
  asm volatile("atom.relaxed.gpu.global.inc.u32 %0, [%1], %2;" : "=r"(before) : "l"(counter), "r"(last) : "memory");
  return before;
}

// Writes `value`; returns the old value.
DEVICE uint32_t atom_exch(uint32_t* counter, uint32_t value) {
  uint32_t before;
  asm volatile("atom.relaxed.gpu.global.exch.b32 %0, [%1], %2;" : "=r"(before) : "l"(counter), "r"(value) : "memory");
  return before;
}
