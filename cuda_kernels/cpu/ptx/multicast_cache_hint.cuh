// CPU twin of cuda_kernels/ptx/multicast_cache_hint.cuh. There is no L2 to evict from: a policy is only recognized.
#pragma once

#include <ptx/kernel.cuh>
#include <ptx/tensor_map.cuh>
#include <runtime/bulk.h>

DEVICE void cp_async_bulk_tensor_load_multicast_cache_hint(uint32_t shared, const TensorMap& map, const int (&at)[2],
                                                           uint32_t mbarrier, uint16_t blocks, uint64_t policy,
                                                           Where where = Where::current()) {
  constexpr auto MNEMONIC = "cp_async_bulk_tensor_load_multicast_cache_hint";
  cpu::check_policy(policy, MNEMONIC, where);
  cpu::bulk_load_multicast(cpu::plan_tensor(map, at, 2, shared, MNEMONIC, where), mbarrier, blocks, MNEMONIC, where);
}
