// The multicast load of tma.cuh with an L2 policy (createpolicy.cuh). PTX ISA 9.7.9: cp.async.bulk.tensor,
// .multicast::cluster, .L2::cache_hint.
#pragma once

#include <cstdint>

#include <ptx/kernel.cuh>
#include <ptx/tensor_map.cuh>

DEVICE void cp_async_bulk_tensor_load_multicast_cache_hint(uint32_t shared, const TensorMap& map, const int (&at)[2],
                                                           uint32_t mbarrier, uint16_t blocks, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_"
      "hint [%0], [%1, {%4, %5}], [%2], %3, %6;" ::"r"(shared),
      "l"(&map), "r"(mbarrier), "h"(blocks), "r"(at[0]), "r"(at[1]), "l"(policy)
      : "memory");
}
