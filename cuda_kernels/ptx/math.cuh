// Scalar arithmetic for which the compiler would otherwise call a library routine, and conversions.
#pragma once

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <ptx/kernel.cuh>

constexpr float INFINITY_F32 = __builtin_huge_valf();

// Natural logarithms and exponentials are computed in base 2: e**x = 2**(x * LOG2_E), ln(x) = log2(x) * LN_2.
constexpr float LOG2_E = 1.4426950408889634f;
constexpr float LN_2 = 0.6931471805599453f;

// 2**x, within 2 ulp; 2**-inf = 0, and subnormal results are flushed to 0. PTX ISA 9.7.3: ex2.
DEVICE float ex2_approx_ftz(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// log2(x). PTX ISA 9.7.3: lg2.
DEVICE float lg2_approx_ftz(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// 1 / x, within 1 ulp: one instruction where a division would call a routine. 1 / 0 = inf. PTX ISA 9.7.3: rcp.
DEVICE float rcp_approx_ftz(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// PTX ISA 9.7.3: max. If one operand is NaN, returns the other.
DEVICE float max_f32(float a, float b) { return fmaxf(a, b); }

// PTX ISA 9.7.9: cvt.rn.f16x2.f32 / cvt.rn.bf16x2.f32. `low` goes to bits 0-15.
template <class T>
DEVICE uint32_t cvt_pack(float low, float high);
template <>
DEVICE uint32_t cvt_pack<__half>(float low, float high) {
  const __half2 pair = __floats2half2_rn(low, high);
  return reinterpret_cast<const uint32_t&>(pair);
}
template <>
DEVICE uint32_t cvt_pack<__nv_bfloat16>(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return reinterpret_cast<const uint32_t&>(pair);
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
