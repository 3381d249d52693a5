// The N of 80 that wgmma_transposed.cuh lacks: an A of 64 columns times 80 rows of B.
#pragma once

#include <ptx/wgmma_transposed.cuh>

// clang-format off
// d = a * b + (scale_d ? d : 0): m64n80k16, with A MN-major and B K-major.
template <class T>
DEVICE void wgmma_mma_async_ss_transposed_80(float (&d)[40], uint64_t a, uint64_t b, int scale_d) {
  constexpr int N = 80, TRANSPOSE_A = 1, TRANSPOSE_B = 0;
  WGMMA_TRANSPOSED_OF_BOTH(80, 40, 41, 42, 43, 44)
}
// clang-format on
