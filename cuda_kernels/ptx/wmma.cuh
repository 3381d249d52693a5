// Warp matrix multiply-accumulate on fragments with an unspecified layout: load, multiply, store.
// PTX ISA 9.7.14.4: wmma, m16n16k16. The only arithmetic allowed on a fragment treats all of its elements alike.
// Addresses are in shared memory, strides in elements from row to row (column to column); both multiples of 16 bytes.
#pragma once

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <ptx/kernel.cuh>

// A or B (16x16). fp16 fragments hold every element twice.
template <class T>
struct WmmaOperand;
template <>
struct WmmaOperand<__half> {
  uint32_t r[8];
};
template <>
struct WmmaOperand<__nv_bfloat16> {
  uint32_t r[4];
};

// C and D (16x16).
struct WmmaAccumulator {
  float r[8];
};

#define WMMA_LOAD(NAME, OPERAND, LAYOUT) \
  DEVICE void NAME(WmmaOperand<__half>& f, uint32_t address, int stride) { \
    asm volatile("wmma.load." OPERAND ".sync.aligned." LAYOUT \
                 ".m16n16k16.shared.f16 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8], %9;" \
                 : "=r"(f.r[0]), "=r"(f.r[1]), "=r"(f.r[2]), "=r"(f.r[3]), "=r"(f.r[4]), "=r"(f.r[5]), "=r"(f.r[6]), \
                   "=r"(f.r[7]) \
                 : "r"(address), "r"(stride) \
                 : "memory"); \
  } \
  DEVICE void NAME(WmmaOperand<__nv_bfloat16>& f, uint32_t address, int stride) { \
    asm volatile("wmma.load." OPERAND ".sync.aligned." LAYOUT ".m16n16k16.shared.bf16 {%0, %1, %2, %3}, [%4], %5;" \
                 : "=r"(f.r[0]), "=r"(f.r[1]), "=r"(f.r[2]), "=r"(f.r[3]) \
                 : "r"(address), "r"(stride) \
                 : "memory"); \
  }
WMMA_LOAD(wmma_load_a_row, "a", "row")
WMMA_LOAD(wmma_load_b_row, "b", "row")
WMMA_LOAD(wmma_load_b_col, "b", "col")
#undef WMMA_LOAD

// c += a * b with A row-major and B as loaded.
#define WMMA_MMA(NAME, LAYOUT) \
  DEVICE void NAME(WmmaAccumulator& c, const WmmaOperand<__half>& a, const WmmaOperand<__half>& b) { \
    asm volatile("wmma.mma.sync.aligned.row." LAYOUT \
                 ".m16n16k16.f32.f32 {%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9, %10, %11, %12, %13, %14, %15}, " \
                 "{%16, %17, %18, %19, %20, %21, %22, %23}, {%0, %1, %2, %3, %4, %5, %6, %7};" \
                 : "+f"(c.r[0]), "+f"(c.r[1]), "+f"(c.r[2]), "+f"(c.r[3]), "+f"(c.r[4]), "+f"(c.r[5]), "+f"(c.r[6]), \
                   "+f"(c.r[7]) \
                 : "r"(a.r[0]), "r"(a.r[1]), "r"(a.r[2]), "r"(a.r[3]), "r"(a.r[4]), "r"(a.r[5]), "r"(a.r[6]), \
                   "r"(a.r[7]), "r"(b.r[0]), "r"(b.r[1]), "r"(b.r[2]), "r"(b.r[3]), "r"(b.r[4]), "r"(b.r[5]), \
                   "r"(b.r[6]), "r"(b.r[7])); \
  } \
  DEVICE void NAME(WmmaAccumulator& c, const WmmaOperand<__nv_bfloat16>& a, const WmmaOperand<__nv_bfloat16>& b) { \
    asm volatile("wmma.mma.sync.aligned.row." LAYOUT \
                 ".m16n16k16.f32.bf16.bf16.f32 {%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9, %10, %11}, " \
                 "{%12, %13, %14, %15}, {%0, %1, %2, %3, %4, %5, %6, %7};" \
                 : "+f"(c.r[0]), "+f"(c.r[1]), "+f"(c.r[2]), "+f"(c.r[3]), "+f"(c.r[4]), "+f"(c.r[5]), "+f"(c.r[6]), \
                   "+f"(c.r[7]) \
                 : "r"(a.r[0]), "r"(a.r[1]), "r"(a.r[2]), "r"(a.r[3]), "r"(b.r[0]), "r"(b.r[1]), "r"(b.r[2]), \
                   "r"(b.r[3])); \
  }
WMMA_MMA(wmma_mma_row_row, "row")
WMMA_MMA(wmma_mma_row_col, "col")
#undef WMMA_MMA

DEVICE void wmma_load_c_row(WmmaAccumulator& f, uint32_t address, int stride) {
  asm volatile("wmma.load.c.sync.aligned.row.m16n16k16.shared.f32 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8], %9;"
               : "=f"(f.r[0]), "=f"(f.r[1]), "=f"(f.r[2]), "=f"(f.r[3]), "=f"(f.r[4]), "=f"(f.r[5]), "=f"(f.r[6]),
                 "=f"(f.r[7])
               : "r"(address), "r"(stride)
               : "memory");
}

DEVICE void wmma_store_d_row(uint32_t address, const WmmaAccumulator& f, int stride) {
  asm volatile(
      "wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [%0], {%1, %2, %3, %4, %5, %6, %7, %8}, %9;" ::"r"(address),
      "f"(f.r[0]), "f"(f.r[1]), "f"(f.r[2]), "f"(f.r[3]), "f"(f.r[4]), "f"(f.r[5]), "f"(f.r[6]), "f"(f.r[7]),
      "r"(stride)
      : "memory");
}
