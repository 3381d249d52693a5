// CPU twin of cuda_kernels/ptx/mma.cuh. Products and sums are fp32, in the order of k.
#pragma once

#include <type_traits>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <ptx/kernel.cuh>
#include <runtime/matrix.h>

template <class T>
DEVICE void mma_m16n8k16(float (&c)[4], const uint32_t (&a)[4], const uint32_t* b, Where where = Where::current()) {
  static_assert(std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>);
  constexpr auto format = std::is_same_v<T, __half> ? cpu::Format::fp16 : cpu::Format::bf16;
  cpu::mma_m16n8k16(c, a, reinterpret_cast<const uint32_t (&)[2]>(*b), format, "mma_m16n8k16", where);
}

template <class T>
DEVICE void mma_m16n8k16_zero(float (&c)[4], const uint32_t (&a)[4], const uint32_t* b,
                              Where where = Where::current()) {
  c[0] = c[1] = c[2] = c[3] = 0.f;
  mma_m16n8k16<T>(c, a, b, where);
}
