// Additions to fp32 numbers in global memory that return nothing. PTX ISA 9.7.13.6: red. Relaxed, GPU scope: the order
// of several additions to one number is unspecified, and with it the rounding of the sum.
#pragma once

#include <cstdint>

#include <ptx/kernel.cuh>

DEVICE void red_add(float* sum, float value) {
  asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" ::"l"(sum), "f"(value) : "memory");
}

// Four neighbours, each added by itself; `sums` is a multiple of 16 bytes. sm_90 and up.
DEVICE void red_add_v4(float* sums, const float4& values) {
  asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(sums), "f"(values.x), "f"(values.y),
               "f"(values.z), "f"(values.w)
               : "memory");
}
