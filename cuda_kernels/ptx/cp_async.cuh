// Copies from global to shared memory that do not pass through registers. PTX ISA 9.7.9.25: cp.async.
#pragma once

#include <cstdint>

#include <ptx/kernel.cuh>

// Copies 16 bytes, cached in L2 only; both addresses are multiples of 16. Lands by the wait on its group.
DEVICE void cp_async_cg_16(uint32_t shared, const void* global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(global) : "memory");
}

// The same, but copies only the first `bytes` (0 to 16) and fills the rest with zeros; with 0, `global` is not read.
DEVICE void cp_async_cg_16_zfill(uint32_t shared, const void* global, uint32_t bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(global), "r"(bytes) : "memory");
}

// Closes this thread's group of copies issued since the last commit.
DEVICE void cp_async_commit_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most `PENDING` of this thread's newest groups are in flight; other threads need a barrier after it.
template <int PENDING>
DEVICE void cp_async_wait_group() {
  asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}
