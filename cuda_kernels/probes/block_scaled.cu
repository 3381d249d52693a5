// A product of 8-bit floats with a scale for every 32 of them, in PTX. Compiled only; the operands are placeholders.
#include <cstdint>

extern "C" __global__ void multiply(float4* c, uint4 a, uint2 b, uint32_t a_scale, uint32_t b_scale) {
  float4 sum = *c;
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e4m3.f32.ue8m0 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}, {%10}, {0, 0}, {%11}, {0, 0};"
      : "+f"(sum.x), "+f"(sum.y), "+f"(sum.z), "+f"(sum.w)
      : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b.x), "r"(b.y), "r"(a_scale), "r"(b_scale));
  *c = sum;
}
