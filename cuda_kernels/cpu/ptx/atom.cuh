// CPU twin of cuda_kernels/ptx/atom.cuh.
#pragma once

#include <ptx/kernel.cuh>

DEVICE uint32_t atom_add(uint32_t* counter, uint32_t value, Where where = Where::current()) {
  return cpu::global_atomic(counter, [&](uint32_t before) { return before + value; }, "atom_add", where);
}

DEVICE uint32_t atom_inc(uint32_t* counter, uint32_t last, Where where = Where::current()) {
  const auto next = [&](uint32_t before) { return before >= last ? 0 : before + 1; };
  return cpu::global_atomic(counter, next, "atom_inc", where);
}

DEVICE uint32_t atom_exch(uint32_t* counter, uint32_t value, Where where = Where::current()) {
  return cpu::global_atomic(counter, [&](uint32_t) { return value; }, "atom_exch", where);
}
