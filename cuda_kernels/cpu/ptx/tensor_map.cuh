// CPU twin of cuda_kernels/ptx/tensor_map.cuh.
#pragma once

#include <cstdint>

#include <ptx/kernel.cuh>
#include <runtime/tensor_map.h>

#define GRID_CONSTANT

using TensorMap = cpu::TensorMap;

enum class Swizzle { none, bytes_32, bytes_64, bytes_128 };

// Returns 1 for a map that the driver would refuse; `diagnosis` says why.
template <class T, int RANK>
Error tensor_map_encode_tiled(TensorMap& map, const void* base, const uint64_t (&sizes)[RANK],
                              const uint64_t (&strides)[RANK - 1], const uint32_t (&box)[RANK], Swizzle swizzle) {
  static_assert(RANK >= 2 && RANK <= 5);
  map = {static_cast<const std::byte*>(base), RANK, sizeof(T), static_cast<int>(swizzle), {}, {}, {}};
  for (int d = 0; d < RANK; ++d) {
    map.sizes[d] = sizes[d];
    map.strides[d] = d ? strides[d - 1] : sizeof(T);
    map.box[d] = box[d];
  }
  return cpu::refuse_map(map);
}
