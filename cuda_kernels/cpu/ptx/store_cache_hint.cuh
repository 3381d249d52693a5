// CPU twin of cuda_kernels/ptx/store_cache_hint.cuh. There is no L2 to evict from: a policy is only recognized.
#pragma once

#include <ptx/kernel.cuh>
#include <ptx/tensor_map.cuh>
#include <runtime/bulk.h>

DEVICE void cp_async_bulk_tensor_store_cache_hint(const TensorMap& map, const int (&at)[2], uint32_t shared,
                                                  uint64_t policy, Where where = Where::current()) {
  constexpr auto MNEMONIC = "cp_async_bulk_tensor_store_cache_hint";
  cpu::check_policy(policy, MNEMONIC, where);
  cpu::bulk_store(cpu::plan_tensor(map, at, 2, shared, MNEMONIC, where), MNEMONIC, where);
}
