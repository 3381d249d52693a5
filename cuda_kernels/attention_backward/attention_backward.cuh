// Shared by all kernels of attention's backward pass: launch arguments, compile-time constants, and where the rows of a
// head lie. Shapes: q, o, d_o, dq (batch, heads, seq_q, head_dim); k, v, dk, dv (batch, heads_kv, seq_kv, head_dim);
// lse (batch, heads, seq_q).
//
// S = Q K^T, P = exp(scale S - LSE), dP = dO V^T, D = rowsum(dO o O), dS = P o (dP - D), and then
// dV = P^T dO, dK = scale dS^T Q, dQ = scale dS K. A head of K and V has the sum over its query heads.
#pragma once

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <ptx/kernel.cuh>

// Called from Python; every other symbol stays hidden inside the library.
#define EXPORT extern "C" __attribute__((visibility("default")))

// Strides in elements of the batch, head and sequence dimensions; the last dimension is contiguous.
struct Strides {
  int64_t batch, head, seq;
};

// Filled through ctypes by harness/operators/attention_backward/arguments.py: same fields in the same order.
struct AttentionBackwardArgs {
  const void* q;
  const void* k;
  const void* v;
  const void* o;
  const void* d_o;
  const float* lse;  // natural log of sum(exp(scale * q.k)), contiguous; -inf for a row that sees no key
  void* dq;
  void* dk;
  void* dv;
  // Scratch memory, whose contents are arbitrary before and after a launch: NaN in it must not reach a result. A head
  // has scratch_rows rows, enough for tiles of up to 128 queries to end in it.
  float* dq_sums;   // (batch, heads, scratch_rows, head_dim); a kernel may reorder elements inside a head
  float* dots;      // D: (batch, heads, scratch_rows)
  float* lse_log2;  // LSE in base 2, +inf for rows that see no key: (batch, heads, scratch_rows)
  // Zero before a launch, and to be left so. A kernel that uses it exports workspace_bytes(const
  // AttentionBackwardArgs*): its size for given lengths.
  void* workspace;
  Strides q_stride, k_stride, v_stride, o_stride, d_o_stride, dq_stride, dk_stride, dv_stride;
  int32_t batch, heads, heads_kv, seq_q, seq_kv, scratch_rows;
  float scale;
};

// One shared library is built per combination of these (-D on the command line of both compilers).
#ifdef ATTENTION_BACKWARD_BF16
using Element = __nv_bfloat16;
#else
using Element = __half;
#endif
constexpr int HEAD_DIM = ATTENTION_BACKWARD_HEAD_DIM;
constexpr bool CAUSAL = ATTENTION_BACKWARD_CAUSAL;
constexpr int BLOCK_M = ATTENTION_BACKWARD_BLOCK_M;  // query rows per tile
constexpr int BLOCK_N = ATTENTION_BACKWARD_BLOCK_N;  // keys per tile
constexpr int STAGES = ATTENTION_BACKWARD_STAGES;    // shared-memory buffers for Q, and as many for dO
constexpr int WARPS = ATTENTION_BACKWARD_WARPS;      // warps that do math; other warps are extra
constexpr int WARP_SIZE = 32;
constexpr int ELEMENT_BYTES = 2;

constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }

// One query head, with the head of K and V that it shares.
struct Head {
  int batch, head, head_kv;

  DEVICE Head(const AttentionBackwardArgs& args, int batch, int head)
      : batch(batch), head(head), head_kv(head / (args.heads / args.heads_kv)) {}

  DEVICE const Element* q(const AttentionBackwardArgs& args) const { return at(args.q, args.q_stride, head); }
  DEVICE const Element* k(const AttentionBackwardArgs& args) const { return at(args.k, args.k_stride, head_kv); }
  DEVICE const Element* v(const AttentionBackwardArgs& args) const { return at(args.v, args.v_stride, head_kv); }
  DEVICE const Element* o(const AttentionBackwardArgs& args) const { return at(args.o, args.o_stride, head); }
  DEVICE const Element* d_o(const AttentionBackwardArgs& args) const { return at(args.d_o, args.d_o_stride, head); }
  DEVICE Element* dq(const AttentionBackwardArgs& args) const { return at(args.dq, args.dq_stride, head); }
  DEVICE Element* dk(const AttentionBackwardArgs& args) const { return at(args.dk, args.dk_stride, head_kv); }
  DEVICE Element* dv(const AttentionBackwardArgs& args) const { return at(args.dv, args.dv_stride, head_kv); }
  DEVICE const float* lse(const AttentionBackwardArgs& args) const { return args.lse + number(args) * args.seq_q; }
  DEVICE float* dots(const AttentionBackwardArgs& args) const { return args.dots + number(args) * args.scratch_rows; }
  DEVICE float* lse_log2(const AttentionBackwardArgs& args) const {
    return args.lse_log2 + number(args) * args.scratch_rows;
  }
  DEVICE float* dq_sums(const AttentionBackwardArgs& args) const {
    return args.dq_sums + number(args) * args.scratch_rows * HEAD_DIM;
  }

 private:
  // The head among those of all batches.
  DEVICE int64_t number(const AttentionBackwardArgs& args) const {
    return static_cast<int64_t>(batch) * args.heads + head;
  }
  DEVICE const Element* at(const void* tensor, const Strides& stride, int head) const {
    return static_cast<const Element*>(tensor) + batch * stride.batch + head * stride.head;
  }
  DEVICE Element* at(void* tensor, const Strides& stride, int head) const {
    return static_cast<Element*>(tensor) + batch * stride.batch + head * stride.head;
  }
};

// The last key that query row `row` sees; -1 or less for a row that sees none.
DEVICE int last_key(const AttentionBackwardArgs& args, int row) {
  const int diagonal = row + args.seq_kv - args.seq_q;
  return CAUSAL && diagonal < args.seq_kv ? diagonal : args.seq_kv - 1;
}
// The first query row that sees key `key`; seq_q or more for a key that no query sees.
DEVICE int first_query(const AttentionBackwardArgs& args, int key) {
  const int diagonal = key + args.seq_q - args.seq_kv;
  return CAUSAL && diagonal > 0 ? diagonal : 0;
}
