// Shared by all attention kernels: launch arguments, compile-time constants, and the tile that a thread block works on.
// Shapes: q, o (batch, heads, seq_q, head_dim); k, v (batch, heads_kv, seq_kv, head_dim); lse (batch, heads, seq_q).
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

// Filled through ctypes by harness/build/cuda.py: same fields in the same order.
struct AttentionArgs {
  const void* q;
  const void* k;
  const void* v;
  void* o;
  float* lse;  // natural log of sum(exp(scale * q.k)), contiguous
  // Zero-initialized. A kernel that uses it exports workspace_bytes(const AttentionArgs*): its size for given lengths.
  void* workspace;
  Strides q_stride, k_stride, v_stride, o_stride;
  int32_t batch, heads, heads_kv, seq_q, seq_kv;
  float scale;
};

// One shared library is built per combination of these (-D on the command line of both compilers).
#ifdef ATTENTION_BF16
using Element = __nv_bfloat16;
#else
using Element = __half;
#endif
constexpr int HEAD_DIM = ATTENTION_HEAD_DIM;
constexpr bool CAUSAL = ATTENTION_CAUSAL;
constexpr int BLOCK_M = ATTENTION_BLOCK_M;  // query rows per thread block
constexpr int BLOCK_N = ATTENTION_BLOCK_N;  // keys per main-loop iteration
constexpr int STAGES = ATTENTION_STAGES;    // shared-memory buffers for K, and as many for V
constexpr int WARPS = ATTENTION_WARPS;      // warps that do math; producer warps are extra
// Row strides of q and o, and of k and v, in elements, where they are known at compile time; 0 where they are not.
#ifndef ATTENTION_Q_ROW_STRIDE
#define ATTENTION_Q_ROW_STRIDE 0
#define ATTENTION_KV_ROW_STRIDE 0
#endif
constexpr int WARP_SIZE = 32;
constexpr int ELEMENT_BYTES = 2;

// The (batch, head) and first query row that a block works on.
struct BlockTile {
  int batch, head, head_kv, q_start;

  DEVICE BlockTile(const AttentionArgs& args, int batch, int head, int q_tile)
      : batch(batch), head(head), head_kv(head / (args.heads / args.heads_kv)), q_start(q_tile * BLOCK_M) {}

  DEVICE const Element* q(const AttentionArgs& args) const {
    return static_cast<const Element*>(args.q) + batch * args.q_stride.batch + head * args.q_stride.head +
           q_start * args.q_stride.seq;
  }
  DEVICE const Element* k(const AttentionArgs& args) const {
    return static_cast<const Element*>(args.k) + batch * args.k_stride.batch + head_kv * args.k_stride.head;
  }
  DEVICE const Element* v(const AttentionArgs& args) const {
    return static_cast<const Element*>(args.v) + batch * args.v_stride.batch + head_kv * args.v_stride.head;
  }
  DEVICE Element* o(const AttentionArgs& args) const {
    return static_cast<Element*>(args.o) + batch * args.o_stride.batch + head * args.o_stride.head +
           q_start * args.o_stride.seq;
  }
  DEVICE float* lse(const AttentionArgs& args) const {
    return args.lse + (static_cast<int64_t>(batch) * args.heads + head) * args.seq_q + q_start;
  }

  DEVICE static int64_t q_row_stride(const Strides& stride) {
    return ATTENTION_Q_ROW_STRIDE ? ATTENTION_Q_ROW_STRIDE : stride.seq;
  }
  DEVICE static int64_t kv_row_stride(const Strides& stride) {
    return ATTENTION_KV_ROW_STRIDE ? ATTENTION_KV_ROW_STRIDE : stride.seq;
  }

  // Keys that at least one row of this tile sees: all of them, or up to the bottom-right causal diagonal.
  DEVICE int visible_keys(const AttentionArgs& args) const {
    if (!CAUSAL) return args.seq_kv;
    const int end = q_start + BLOCK_M + args.seq_kv - args.seq_q;
    return end < 0 ? 0 : (end < args.seq_kv ? end : args.seq_kv);
  }
  // Keys that every row of this tile sees.
  DEVICE int unmasked_keys(const AttentionArgs& args) const {
    if (!CAUSAL) return args.seq_kv;
    const int end = q_start + 1 + args.seq_kv - args.seq_q;
    return end < 0 ? 0 : (end < args.seq_kv ? end : args.seq_kv);
  }
  // The last key that query row `row` of this tile sees.
  DEVICE int last_key(const AttentionArgs& args, int row) const {
    const int diagonal = q_start + row + args.seq_kv - args.seq_q;
    return CAUSAL && diagonal < args.seq_kv ? diagonal : args.seq_kv - 1;
  }
  // Does the causal diagonal cut the key tile that starts at kv_start?
  DEVICE bool crosses_diagonal(const AttentionArgs& args, int kv_start) const {
    return CAUSAL && kv_start + BLOCK_N - 1 > q_start + args.seq_kv - args.seq_q;
  }
  // Does the causal mask let query row `row` of this tile see key `key`?
  DEVICE bool sees(const AttentionArgs& args, int row, int key) const {
    return key <= q_start + row + args.seq_kv - args.seq_q;
  }
};

constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }
