// Bulk copies from shared to global memory that add in place of overwriting. PTX ISA 9.7.9.25: cp.reduce.async.bulk.
// Like a bulk store, one belongs to a group of its thread (cp_async_bulk_commit_group in tma.cuh). The order of several
// additions to one number is unspecified, and with it the rounding of the sum.
#pragma once

#include <cstdint>

#include <ptx/kernel.cuh>

// Adds `bytes` contiguous bytes of fp32 numbers: a multiple of 16, as are both addresses.
DEVICE void cp_reduce_async_bulk_add(float* sums, uint32_t shared, uint32_t bytes) {
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(sums), "r"(shared),
               "r"(bytes)
               : "memory");
}
