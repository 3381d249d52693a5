// CPU twin of cuda_kernels/ptx/short_fetches.cuh.
#pragma once

#include <ptx/tensor_map.cuh>

template <class T, int RANK>
Error tensor_map_encode_short_fetches(TensorMap& map, const void* base, const uint64_t (&sizes)[RANK],
                                      const uint64_t (&strides)[RANK - 1], const uint32_t (&box)[RANK]) {
  return tensor_map_encode_tiled<T, RANK>(map, base, sizes, strides, box, Swizzle::bytes_128);
}
