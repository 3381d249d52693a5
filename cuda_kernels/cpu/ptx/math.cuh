// CPU twin of cuda_kernels/ptx/math.cuh.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <ptx/kernel.cuh>
#include <runtime/wgmma.h>

constexpr float INFINITY_F32 = __builtin_huge_valf();
constexpr float LOG2_E = 1.4426950408889634f;
constexpr float LN_2 = 0.6931471805599453f;

DEVICE float ex2_approx_ftz(float x, Where where = Where::current()) {
  cpu::check_accumulated(x, "ex2_approx_ftz", where);
  const float y = std::exp2(x);
  // Every NaN of a GPU is positive; a CPU keeps the sign of x, and its 0 * inf is negative.
  if (std::isnan(y)) return std::numeric_limits<float>::quiet_NaN();
  return y < 0x1p-126f ? 0.f : y;
}

DEVICE float lg2_approx_ftz(float x) { return std::log2(std::fabs(x) < 0x1p-126f ? 0.f : x); }

DEVICE float rcp_approx_ftz(float x) { return 1.f / (std::fabs(x) < 0x1p-126f ? std::copysign(0.f, x) : x); }

DEVICE float max_f32(float a, float b, Where where = Where::current()) {
  cpu::check_accumulated(a, "max_f32", where);
  cpu::check_accumulated(b, "max_f32", where);
  return std::fmax(a, b);
}

template <class T>
DEVICE uint32_t cvt_pack(float low, float high, Where where = Where::current()) {
  cpu::check_accumulated(low, "cvt_pack", where);
  cpu::check_accumulated(high, "cvt_pack", where);
  if constexpr (std::is_same_v<T, __half>) {
    const __half2 pair = __floats2half2_rn(low, high);
    return cpu::load<uint32_t>(&pair);
  } else {
    static_assert(std::is_same_v<T, __nv_bfloat16>);
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return cpu::load<uint32_t>(&pair);
  }
}

DEVICE float cvt_f32(__half x) { return __half2float(x); }
DEVICE float cvt_f32(__nv_bfloat16 x) { return __bfloat162float(x); }
template <class T>
DEVICE T cvt_rn(float x);
template <>
DEVICE __half cvt_rn<__half>(float x) {
  return __float2half_rn(x);
}
template <>
DEVICE __nv_bfloat16 cvt_rn<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}
