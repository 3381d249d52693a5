// The tensor store of tma.cuh with an L2 policy (createpolicy.cuh). PTX ISA 9.7.9: cp.async.bulk.tensor,
// .L2::cache_hint.
#pragma once

#include <cstdint>

#include <ptx/kernel.cuh>
#include <ptx/tensor_map.cuh>

DEVICE void cp_async_bulk_tensor_store_cache_hint(const TensorMap& map, const int (&at)[2], uint32_t shared,
                                                  uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group.L2::cache_hint [%1, {%2, %3}], [%0], %4;" ::"r"(
          shared),
      "l"(&map), "r"(at[0]), "r"(at[1]), "l"(policy)
      : "memory");
}
