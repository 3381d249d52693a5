// CPU twin of cuda_kernels/ptx/turns.cuh.
#pragma once

#include <ptx/kernel.cuh>

DEVICE uint32_t ld_acquire(uint32_t* counter, Where where = Where::current()) {
  return cpu::global_atomic(counter, [](uint32_t value) { return value; }, "ld_acquire", where);
}

DEVICE void red_release_inc(uint32_t* counter, uint32_t last, Where where = Where::current()) {
  const auto next = [&](uint32_t before) { return before >= last ? 0 : before + 1; };
  cpu::global_atomic(counter, next, "red_release_inc", where);
}
