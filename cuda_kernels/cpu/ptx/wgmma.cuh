// CPU twin of cuda_kernels/ptx/wgmma.cuh.
#pragma once

#include <type_traits>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <ptx/kernel.cuh>
#include <ptx/tensor_map.cuh>
#include <runtime/wgmma.h>

DEVICE uint64_t wgmma_descriptor(uint32_t address, uint32_t leading, uint32_t stride, Swizzle swizzle) {
  const uint64_t layout = (4 - static_cast<int>(swizzle)) % 4;
  return (address & 0x3ffff) >> 4 | static_cast<uint64_t>(leading >> 4 & 0x3fff) << 16 |
         static_cast<uint64_t>(stride >> 4 & 0x3fff) << 32 | layout << 62;
}

DEVICE void wgmma_fence(Where where = Where::current()) { cpu::wgmma_fence("wgmma_fence", where); }

DEVICE void wgmma_commit_group(Where where = Where::current()) { cpu::wgmma_commit_group("wgmma_commit_group", where); }

template <int PENDING>
DEVICE void wgmma_wait_group(Where where = Where::current()) {
  cpu::wgmma_wait_group(PENDING, "wgmma_wait_group", where);
}

// Across calls, the compiler keeps nothing in registers that the runtime may change.
template <int COUNT>
DEVICE void register_fence(float (&)[COUNT]) {}
template <int COUNT>
DEVICE void register_fence(uint32_t (&)[COUNT]) {}

template <class T>
constexpr cpu::Format wgmma_format() {
  static_assert(std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16> || std::is_same_v<T, __nv_fp8_e4m3>);
  return std::is_same_v<T, __half>          ? cpu::Format::fp16
         : std::is_same_v<T, __nv_bfloat16> ? cpu::Format::bf16
                                            : cpu::Format::e4m3;
}

template <class T, int N, bool TRANSPOSE_B = false>
DEVICE void wgmma_mma_async_ss(float (&d)[N / 2], uint64_t a, uint64_t b, int scale_d, Where where = Where::current()) {
  static_assert(sizeof(T) == 2 || !TRANSPOSE_B, "8-bit operands are K-major");
  cpu::wgmma(d, a, nullptr, b, scale_d, N, wgmma_format<T>(), false, TRANSPOSE_B, "wgmma_mma_async_ss", where);
}

template <class T, int N, bool TRANSPOSE_B = false>
DEVICE void wgmma_mma_async_rs(float (&d)[N / 2], const uint32_t (&a)[4], uint64_t b, int scale_d,
                               Where where = Where::current()) {
  static_assert(sizeof(T) == 2 || !TRANSPOSE_B, "8-bit operands are K-major");
  cpu::wgmma(d, 0, a, b, scale_d, N, wgmma_format<T>(), false, TRANSPOSE_B, "wgmma_mma_async_rs", where);
}
