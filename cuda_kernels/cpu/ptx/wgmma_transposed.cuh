// CPU twin of cuda_kernels/ptx/wgmma_transposed.cuh.
#pragma once

#include <ptx/wgmma.cuh>

template <class T, int N, bool TRANSPOSE_A, bool TRANSPOSE_B>
DEVICE void wgmma_mma_async_ss_transposed(float (&d)[N / 2], uint64_t a, uint64_t b, int scale_d,
                                          Where where = Where::current()) {
  static_assert(sizeof(T) == 2, "8-bit operands are K-major");
  cpu::wgmma(d, a, nullptr, b, scale_d, N, wgmma_format<T>(), TRANSPOSE_A, TRANSPOSE_B, "wgmma_mma_async_ss_transposed",
             where);
}
