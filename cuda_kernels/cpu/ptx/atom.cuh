// CPU twin of cuda_kernels/ptx/atom.cuh.
#pragma once

#include <atomic>

#include <ptx/kernel.cuh>

DEVICE uint32_t atom_add(uint32_t* counter, uint32_t value, Where where = Where::current()) {
  cpu::global_atomic(counter, sizeof *counter, "atom_add", where);
  return std::atomic_ref(*counter).fetch_add(value, std::memory_order_relaxed);
}

DEVICE uint32_t atom_inc(uint32_t* counter, uint32_t last, Where where = Where::current()) {
  cpu::global_atomic(counter, sizeof *counter, "atom_inc", where);
  const std::atomic_ref shared(*counter);
  uint32_t before = shared.load(std::memory_order_relaxed);
  while (!shared.compare_exchange_weak(before, before >= last ? 0 : before + 1, std::memory_order_relaxed)) {
  }
  return before;
}

DEVICE uint32_t atom_exch(uint32_t* counter, uint32_t value, Where where = Where::current()) {
  cpu::global_atomic(counter, sizeof *counter, "atom_exch", where);
  return std::atomic_ref(*counter).exchange(value, std::memory_order_relaxed);
}
