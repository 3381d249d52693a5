// L2 cache hints: how long L2 should keep the data of a copy. PTX ISA 9.7.9: createpolicy; cp.async.bulk.tensor,
// .L2::cache_hint. Separate from tma.cuh, because only some kernels give hints. A policy is 64 opaque bits that only
// createpolicy produces; it is a hint and never changes a result.
#pragma once

#include <cstdint>

#include <ptx/kernel.cuh>
#include <ptx/tensor_map.cuh>

// For all bytes of a copy: L2 evicts them last ...
DEVICE uint64_t createpolicy_evict_last() {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
// ... or first.
DEVICE uint64_t createpolicy_evict_first() {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

// cp_async_bulk_tensor_load with an L2 policy.
template <int RANK>
DEVICE void cp_async_bulk_tensor_load_cache_hint(uint32_t shared, const TensorMap& map, const int (&at)[RANK],
                                                 uint32_t mbarrier, uint64_t policy) {
  if constexpr (RANK == 2)
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, "
        "{%4, %5}], [%2], %3;" ::"r"(shared),
        "l"(&map), "r"(mbarrier), "l"(policy), "r"(at[0]), "r"(at[1])
        : "memory");
  else if constexpr (RANK == 3)
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, "
        "{%4, %5, %6}], [%2], %3;" ::"r"(shared),
        "l"(&map), "r"(mbarrier), "l"(policy), "r"(at[0]), "r"(at[1]), "r"(at[2])
        : "memory");
  else if constexpr (RANK == 4)
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, "
        "{%4, %5, %6, %7}], [%2], %3;" ::"r"(shared),
        "l"(&map), "r"(mbarrier), "l"(policy), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3])
        : "memory");
  else if constexpr (RANK == 5)
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, "
        "{%4, %5, %6, %7, %8}], [%2], %3;" ::"r"(shared),
        "l"(&map), "r"(mbarrier), "l"(policy), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(at[4])
        : "memory");
}
