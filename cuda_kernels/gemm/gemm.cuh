// Shared by all matrix products: launch arguments, compile-time constants, and the epilogue.
// Shapes: a (m, k), b (n, k), bias (n), c (m, n), with C = epilogue(A B^T). The last dimension of each is contiguous.
#pragma once

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <type_traits>

#include <ptx/kernel.cuh>
#include <ptx/ld_st.cuh>
#include <ptx/math.cuh>

// Called from Python; every other symbol stays hidden inside the library.
#define EXPORT extern "C" __attribute__((visibility("default")))

// Filled through ctypes by harness/operators/gemm/arguments.py: same fields in the same order.
struct GemmArgs {
  const void* a;
  const void* b;
  const void* bias;  // null where the epilogue has none
  void* c;
  // Zero-initialized. A kernel that uses it exports workspace_bytes(const GemmArgs*): its size for given sizes.
  void* workspace;
  int64_t a_stride, b_stride, c_stride;  // elements between rows, multiples of 16 bytes
  int32_t m, n, k;
};

// One shared library is built per combination of these (-D on the command line of both compilers).
#ifdef GEMM_BF16
using Element = __nv_bfloat16;
#else
using Element = __half;
#endif
using Output = std::conditional_t<GEMM_OUT_FP32, float, Element>;
constexpr bool BIAS = GEMM_BIAS, GELU = GEMM_GELU;
constexpr int BLOCK_M = GEMM_BLOCK_M;  // rows of C per thread block
constexpr int BLOCK_N = GEMM_BLOCK_N;  // columns of C per thread block
constexpr int BLOCK_K = GEMM_BLOCK_K;  // elements of k per main-loop iteration
constexpr int STAGES = GEMM_STAGES;    // shared-memory buffers for A, and as many for B
constexpr int WARPS = GEMM_WARPS;      // warps that do math; producer warps are extra
constexpr int WARP_SIZE = 32;
constexpr int ELEMENT_BYTES = 2;

constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }

DEVICE const Element* a_at(const GemmArgs& args, int row, int col) {
  return static_cast<const Element*>(args.a) + row * args.a_stride + col;
}
DEVICE const Element* b_at(const GemmArgs& args, int row, int col) {
  return static_cast<const Element*>(args.b) + row * args.b_stride + col;
}

// The epilogue of one sum: the column's bias, then GELU in its tanh form, x sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3)).
DEVICE float finish(const GemmArgs& args, float sum, int col) {
  if constexpr (BIAS) sum += cvt_f32(ld_global<Element>(static_cast<const Element*>(args.bias) + col));
  if constexpr (GELU) {
    constexpr float SCALE = 2.f * 0.7978845608f * LOG2_E;
    sum *= rcp_approx_ftz(1.f + ex2_approx_ftz(-SCALE * (sum + 0.044715f * sum * sum * sum)));
  }
  return sum;
}

// Writes the sums of columns `col` and `col` + 1 of a row. Both columns are in C or neither is, because n is even.
DEVICE void store_pair(const GemmArgs& args, int row, int col, float first, float second) {
  if (row >= args.m || col >= args.n) return;
  Output* c = static_cast<Output*>(args.c) + row * args.c_stride + col;
  first = finish(args, first, col), second = finish(args, second, col + 1);
  if constexpr (std::is_same_v<Output, float>)
    st_global(c, make_float2(first, second));
  else
    st_global(c, cvt_pack<Element>(first, second));
}

// Writes one sum.
DEVICE void store(const GemmArgs& args, int row, int col, float sum) {
  if (row >= args.m || col >= args.n) return;
  Output* c = static_cast<Output*>(args.c) + row * args.c_stride + col;
  if constexpr (std::is_same_v<Output, float>)
    st_global(c, finish(args, sum, col));
  else
    st_global(c, cvt_rn<Element>(finish(args, sum, col)));
}
