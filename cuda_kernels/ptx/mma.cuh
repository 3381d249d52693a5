// Warp-wide matrix multiply-accumulate on tensor cores. PTX ISA 9.7.14.5.8: mma.m16n8k16 with .f16/.bf16.
// With g = lane / 4 and t = lane % 4, a lane holds
//   A (16x16): a[0] = (g, 2t..), a[1] = (g + 8, 2t..), a[2] = (g, 2t + 8..), a[3] = (g + 8, 2t + 8..)
//   B (16x8):  b[0] = (k = 2t.., n = g), b[1] = (k = 2t + 8.., n = g)
//   C (16x8):  c[0], c[1] = (g, 2t..), c[2], c[3] = (g + 8, 2t..)
// where ".." is that element and the next one of the same row (column for B).
#pragma once

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <ptx/kernel.cuh>

// b: the two registers of a B fragment; they may be one half of what an ldmatrix.x4 loaded.

// c += a * b
template <class T>
DEVICE void mma_m16n8k16(float (&c)[4], const uint32_t (&a)[4], const uint32_t* b);

template <>
DEVICE void mma_m16n8k16<__half>(float (&c)[4], const uint32_t (&a)[4], const uint32_t* b) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

template <>
DEVICE void mma_m16n8k16<__nv_bfloat16>(float (&c)[4], const uint32_t (&a)[4], const uint32_t* b) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// c = a * b: the accumulator operand is the zero register.
template <class T>
DEVICE void mma_m16n8k16_zero(float (&c)[4], const uint32_t (&a)[4], const uint32_t* b);

template <>
DEVICE void mma_m16n8k16_zero<__half>(float (&c)[4], const uint32_t (&a)[4], const uint32_t* b) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %10, %10, %10};"
      : "=f"(c[0]), "=f"(c[1]), "=f"(c[2]), "=f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(0.f));
}

template <>
DEVICE void mma_m16n8k16_zero<__nv_bfloat16>(float (&c)[4], const uint32_t (&a)[4], const uint32_t* b) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %10, %10, %10};"
      : "=f"(c[0]), "=f"(c[1]), "=f"(c[2]), "=f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(0.f));
}
