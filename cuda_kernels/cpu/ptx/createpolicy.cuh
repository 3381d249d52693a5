// CPU twin of cuda_kernels/ptx/createpolicy.cuh. There is no L2 to evict from: a policy is only recognized.
#pragma once

#include <ptx/kernel.cuh>
#include <ptx/tensor_map.cuh>
#include <runtime/bulk.h>

DEVICE uint64_t createpolicy_evict_last(Where where = Where::current()) {
  cpu::count_thread("createpolicy_evict_last", where);
  return cpu::EVICT_LAST;
}
DEVICE uint64_t createpolicy_evict_first(Where where = Where::current()) {
  cpu::count_thread("createpolicy_evict_first", where);
  return cpu::EVICT_FIRST;
}

template <int RANK>
DEVICE void cp_async_bulk_tensor_load_cache_hint(uint32_t shared, const TensorMap& map, const int (&at)[RANK],
                                                 uint32_t mbarrier, uint64_t policy, Where where = Where::current()) {
  constexpr auto MNEMONIC = "cp_async_bulk_tensor_load_cache_hint";
  cpu::check_policy(policy, MNEMONIC, where);
  cpu::bulk_load(cpu::plan_tensor(map, at, RANK, shared, MNEMONIC, where), mbarrier, MNEMONIC, where);
}
