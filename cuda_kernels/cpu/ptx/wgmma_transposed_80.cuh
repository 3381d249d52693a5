// CPU twin of cuda_kernels/ptx/wgmma_transposed_80.cuh.
#pragma once

#include <ptx/wgmma.cuh>

template <class T>
DEVICE void wgmma_mma_async_ss_transposed_80(float (&d)[40], uint64_t a, uint64_t b, int scale_d,
                                             Where where = Where::current()) {
  cpu::wgmma(d, a, nullptr, b, scale_d, 80, wgmma_format<T>(), true, false, "wgmma_mma_async_ss_transposed_80", where);
}
