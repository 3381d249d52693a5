// CPU twin of cuda_kernels/ptx/wmma.cuh. Fragments have another layout than a GPU's, which is unspecified anyway.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <ptx/kernel.cuh>
#include <runtime/matrix.h>

template <class T>
struct WmmaOperand {
  uint16_t elements[8];
};

struct WmmaAccumulator {
  float r[8];
};

template <class T>
DEVICE void wmma_load_a_row(WmmaOperand<T>& f, uint32_t address, int stride, Where where = Where::current()) {
  cpu::wmma_load(f.elements, false, address, stride, "wmma_load_a_row", where);
}

template <class T>
DEVICE void wmma_load_b_row(WmmaOperand<T>& f, uint32_t address, int stride, Where where = Where::current()) {
  cpu::wmma_load(f.elements, false, address, stride, "wmma_load_b_row", where);
}

template <class T>
DEVICE void wmma_load_b_col(WmmaOperand<T>& f, uint32_t address, int stride, Where where = Where::current()) {
  cpu::wmma_load(f.elements, true, address, stride, "wmma_load_b_col", where);
}

DEVICE void wmma_mma_row_row(WmmaAccumulator& c, const WmmaOperand<__half>& a, const WmmaOperand<__half>& b,
                             Where where = Where::current()) {
  cpu::wmma_multiply(c.r, a.elements, b.elements, cpu::Format::fp16, "wmma_mma_row_row", where);
}
DEVICE void wmma_mma_row_row(WmmaAccumulator& c, const WmmaOperand<__nv_bfloat16>& a,
                             const WmmaOperand<__nv_bfloat16>& b, Where where = Where::current()) {
  cpu::wmma_multiply(c.r, a.elements, b.elements, cpu::Format::bf16, "wmma_mma_row_row", where);
}

DEVICE void wmma_mma_row_col(WmmaAccumulator& c, const WmmaOperand<__half>& a, const WmmaOperand<__half>& b,
                             Where where = Where::current()) {
  cpu::wmma_multiply(c.r, a.elements, b.elements, cpu::Format::fp16, "wmma_mma_row_col", where);
}
DEVICE void wmma_mma_row_col(WmmaAccumulator& c, const WmmaOperand<__nv_bfloat16>& a,
                             const WmmaOperand<__nv_bfloat16>& b, Where where = Where::current()) {
  cpu::wmma_multiply(c.r, a.elements, b.elements, cpu::Format::bf16, "wmma_mma_row_col", where);
}

DEVICE void wmma_load_c_row(WmmaAccumulator& f, uint32_t address, int stride, Where where = Where::current()) {
  cpu::wmma_load_f32(f.r, address, stride, "wmma_load_c_row", where);
}

DEVICE void wmma_store_d_row(uint32_t address, const WmmaAccumulator& f, int stride, Where where = Where::current()) {
  cpu::wmma_store_f32(f.r, address, stride, "wmma_store_d_row", where);
}
