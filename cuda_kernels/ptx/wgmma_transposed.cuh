// wgmma_mma_async_ss of wgmma.cuh, where A may be MN-major as well as B. PTX ISA 9.7.15.5: wgmma.mma_async, imm-trans-a
// and imm-trans-b, which 16-bit operands in shared memory have.
#pragma once

#include <ptx/wgmma.cuh>

// clang-format off
#define WGMMA_TRANSPOSED(columns, type, SHAPE, n0, n1, n2, n3, n4) \
  if constexpr (N == columns && std::is_same_v<T, type>) \
    asm volatile(WGMMA_BEGIN(columns, SHAPE, n2) "%" #n0 ", %" #n1 ", p, 1, 1, %" #n3 ", %" #n4 ";\n}" \
                 : WGMMA_O_##columns \
                 : "l"(a), "l"(b), "r"(scale_d), "n"(TRANSPOSE_A), "n"(TRANSPOSE_B) \
                 : "memory");
#define WGMMA_TRANSPOSED_OF_BOTH(columns, ...) \
  WGMMA_TRANSPOSED(columns, __half, "k16.f32.f16.f16", __VA_ARGS__) \
  WGMMA_TRANSPOSED(columns, __nv_bfloat16, "k16.f32.bf16.bf16", __VA_ARGS__)

// d = a * b + (scale_d ? d : 0): m64nNk16. A and B are K-major, A is MN-major when TRANSPOSE_A, B when TRANSPOSE_B.
template <class T, int N, bool TRANSPOSE_A, bool TRANSPOSE_B>
DEVICE void wgmma_mma_async_ss_transposed(float (&d)[N / 2], uint64_t a, uint64_t b, int scale_d) {
  static_assert(sizeof(T) == 2, "8-bit operands are K-major");
  static_assert(N == 64 || N == 128 || N == 192 || N == 256, "add N here");
  WGMMA_TRANSPOSED_OF_BOTH(64, 32, 33, 34, 35, 36)
  WGMMA_TRANSPOSED_OF_BOTH(128, 64, 65, 66, 67, 68)
  WGMMA_TRANSPOSED_OF_BOTH(192, 96, 97, 98, 99, 100)
  WGMMA_TRANSPOSED_OF_BOTH(256, 128, 129, 130, 131, 132)
}
// clang-format on
