// CPU twin of cuda_kernels/ptx/bulk_reduce.cuh.
#pragma once

#include <ptx/kernel.cuh>
#include <runtime/bulk.h>

DEVICE void cp_reduce_async_bulk_add(float* sums, uint32_t shared, uint32_t bytes, Where where = Where::current()) {
  constexpr auto MNEMONIC = "cp_reduce_async_bulk_add";
  cpu::bulk_store(cpu::plan_plain(sums, shared, bytes), MNEMONIC, where, true);
}
