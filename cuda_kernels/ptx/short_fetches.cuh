// Tensor maps whose loads let L2 fetch 128 bytes on a miss; those of tensor_map.cuh let it fetch 256. CUDA driver API:
// CUtensorMapL2promotion.
#pragma once

#include <ptx/tensor_map.cuh>

// tensor_map_encode_tiled for elements of 16 bits and a swizzle of 128 bytes.
template <class T, int RANK>
Error tensor_map_encode_short_fetches(TensorMap& map, const void* base, const uint64_t (&sizes)[RANK],
                                      const uint64_t (&strides)[RANK - 1], const uint32_t (&box)[RANK]) {
  static_assert(RANK >= 2 && RANK <= 5);
  static_assert(std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>);
  constexpr auto type = std::is_same_v<T, __half> ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  const EncodeFunction& encode = EncodeFunction::get();
  if (encode.error != cudaSuccess) return encode.error;
  uint32_t element_strides[RANK];
  for (int i = 0; i < RANK; ++i) element_strides[i] = 1;
  const CUresult result = encode.address(&map, type, RANK, const_cast<void*>(base), sizes, strides, box,
                                         element_strides, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                         CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}
