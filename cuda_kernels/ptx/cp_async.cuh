// Asynchronous copies from global to shared memory that bypass registers. PTX ISA 9.7.9.25: cp.async.
#pragma once

#include <cstdint>

#include <ptx/kernel.cuh>

// Copies 16 bytes, cached in L2 only; both addresses must be multiples of 16. Complete after the wait for its group.
DEVICE void cp_async_cg_16(uint32_t shared, const void* global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(global) : "memory");
}

// The same, but copies only the first `bytes` (0 to 16) and zero-fills the rest; with 0, `global` is not read.
DEVICE void cp_async_cg_16_zfill(uint32_t shared, const void* global, uint32_t bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(global), "r"(bytes) : "memory");
}

// Commits this thread's copies since the last commit as one group.
DEVICE void cp_async_commit_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most the `PENDING` newest groups of this thread are in flight; other threads need a barrier after it.
template <int PENDING>
DEVICE void cp_async_wait_group() {
  asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}
