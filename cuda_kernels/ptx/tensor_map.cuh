// Tensor maps describe a tensor in global memory to bulk tensor copies. They are encoded on the host and passed to the
// kernel as a `GRID_CONSTANT const` parameter. CUDA driver API: cuTensorMapEncodeTiled.
#pragma once

#include <cstdint>
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <type_traits>

#include <ptx/kernel.cuh>

#define GRID_CONSTANT __grid_constant__

using TensorMap = CUtensorMap;

// XORs the 16-byte columns of rows of 32, 64 or 128 bytes with the row: with bits 7 and up of the shared address.
enum class Swizzle { none, bytes_32, bytes_64, bytes_128 };

// The driver's function, of which the runtime returns the address: the driver library is not linked. It is found by
// name once, not at each launch.
struct EncodeFunction {
  Error error;
  decltype(&cuTensorMapEncodeTiled) address;

  static const EncodeFunction& get() {
    static const EncodeFunction function = [] {
      void* address = nullptr;
      cudaDriverEntryPointQueryResult found;
      Error error =
          cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &address, 12000, cudaEnableDefault, &found);
      if (error == cudaSuccess && found != cudaDriverEntryPointSuccess) error = cudaErrorNotSupported;
      return EncodeFunction{error, reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(address)};
    }();
    return function;
  }
};

// Encodes the map of a tensor of elements T. Sizes and box: elements, innermost dimension first; strides are in bytes,
// multiples of 16, for all dimensions but the innermost, which is contiguous. A copy moves one box; with a swizzle, the
// box's innermost dimension has at most that many bytes. Elements outside the tensor are read as 0 and not written.
template <class T, int RANK>
Error tensor_map_encode_tiled(TensorMap& map, const void* base, const uint64_t (&sizes)[RANK],
                              const uint64_t (&strides)[RANK - 1], const uint32_t (&box)[RANK], Swizzle swizzle) {
  static_assert(RANK >= 2 && RANK <= 5);
  constexpr auto type = std::is_same_v<T, __half>          ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                        : std::is_same_v<T, __nv_bfloat16> ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                        : std::is_same_v<T, float>         ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32
                                                           : CU_TENSOR_MAP_DATA_TYPE_UINT8;
  static_assert(type != CU_TENSOR_MAP_DATA_TYPE_UINT8 || sizeof(T) == 1);
  constexpr CUtensorMapSwizzle swizzles[] = {CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_SWIZZLE_32B,
                                             CU_TENSOR_MAP_SWIZZLE_64B, CU_TENSOR_MAP_SWIZZLE_128B};
  const EncodeFunction& encode = EncodeFunction::get();
  if (encode.error != cudaSuccess) return encode.error;
  uint32_t element_strides[RANK];
  for (int i = 0; i < RANK; ++i) element_strides[i] = 1;
  const CUresult result = encode.address(
      &map, type, RANK, const_cast<void*>(base), sizes, strides, box, element_strides, CU_TENSOR_MAP_INTERLEAVE_NONE,
      swizzles[static_cast<int>(swizzle)], CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}
