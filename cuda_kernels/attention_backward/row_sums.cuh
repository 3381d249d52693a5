// The kernels before and after the main one: what each query row needs as a number, and dQ in 16 bits.
#pragma once

#include <attention_backward/attention_backward.cuh>
#include <ptx/ld_st.cuh>
#include <ptx/math.cuh>
#include <ptx/shfl.cuh>

constexpr int ROW_THREADS = 256;
constexpr int CHUNK = 16 / ELEMENT_BYTES;      // elements per 16-byte access
constexpr int ROW_LANES = HEAD_DIM / CHUNK;    // lanes that share a row
constexpr int ROWS = ROW_THREADS / ROW_LANES;  // per block; divides scratch_rows, a multiple of 128

struct alignas(16) Chunk {
  Element at[CHUNK];
};

// The head, the row in its scratch memory and the first column of a thread.
struct RowOfThread {
  Head head;
  int row, col;

  DEVICE explicit RowOfThread(const AttentionBackwardArgs& args)
      : head(args, ctaid_z(), ctaid_y()),
        row(ctaid_x() * ROWS + tid_x() / ROW_LANES),
        col(tid_x() % ROW_LANES * CHUNK) {}
  static Grid grid(const AttentionBackwardArgs& args) { return {args.scratch_rows / ROWS, args.heads, args.batch}; }
};

// D = rowsum(dO o O), and LSE in base 2. Rows from seq_q on, and rows that see no key, get LSE +inf, so that their P is
// exp2(-inf) = 0. `clears`: also zeros the sums of dQ.
struct RowParams {
  AttentionBackwardArgs args;
  bool clears;
};
KERNEL(ROW_THREADS, 1) row_sums(const RowParams params) {
  const AttentionBackwardArgs& args = params.args;
  const RowOfThread at(args);
  float dot = 0.f;
  if (at.row < args.seq_q) {
    const auto o = ld_global<Chunk>(at.head.o(args) + at.row * args.o_stride.seq + at.col);
    const auto d_o = ld_global<Chunk>(at.head.d_o(args) + at.row * args.d_o_stride.seq + at.col);
#pragma unroll
    for (int i = 0; i < CHUNK; ++i) dot += cvt_f32(o.at[i]) * cvt_f32(d_o.at[i]);
  }
#pragma unroll
  for (int lanes = 1; lanes < ROW_LANES; lanes *= 2) dot += shfl_bfly(dot, lanes);
  if (at.col == 0) {
    const float lse = at.row < args.seq_q ? ld_global<float>(at.head.lse(args) + at.row) : -INFINITY_F32;
    st_global(at.head.dots(args) + at.row, dot);
    st_global(at.head.lse_log2(args) + at.row, lse == -INFINITY_F32 ? INFINITY_F32 : lse * LOG2_E);
  }
  if (params.clears) {
    float* sums = at.head.dq_sums(args) + static_cast<int64_t>(at.row) * HEAD_DIM + at.col;
    st_global(sums, make_float4(0.f, 0.f, 0.f, 0.f));
    st_global(sums + 4, make_float4(0.f, 0.f, 0.f, 0.f));
  }
}

inline Error launch_row_sums(const AttentionBackwardArgs& args, bool clears, void* stream) {
  return launch_kernel<row_sums>(RowOfThread::grid(args), ROW_THREADS, 0, stream, RowParams{args, clears});
}

// dQ = scale times its sums, which lie row by row.
KERNEL(ROW_THREADS, 1) convert_dq(const AttentionBackwardArgs args) {
  const RowOfThread at(args);
  if (at.row >= args.seq_q) return;
  const float* sums = at.head.dq_sums(args) + static_cast<int64_t>(at.row) * HEAD_DIM + at.col;
  const auto low = ld_global<float4>(sums), high = ld_global<float4>(sums + 4);
  const float scale = args.scale;
  st_global(
      at.head.dq(args) + at.row * args.dq_stride.seq + at.col,
      make_uint4(cvt_pack<Element>(low.x * scale, low.y * scale), cvt_pack<Element>(low.z * scale, low.w * scale),
                 cvt_pack<Element>(high.x * scale, high.y * scale), cvt_pack<Element>(high.z * scale, high.w * scale)));
}

inline Error launch_convert_dq(const AttentionBackwardArgs& args, void* stream) {
  return launch_kernel<convert_dq>(RowOfThread::grid(args), ROW_THREADS, 0, stream, args);
}

// The sums of a tile of BLOCK_M queries may lie as the accumulators of two warpgroups: each has half of the columns, or
// of the rows if these are 128, and of them 4 numbers of each thread, then the next 4 of each thread, and so on.
KERNEL(ROW_THREADS, 1) convert_dq_fragments(const AttentionBackwardArgs args) {
  constexpr int HALF = BLOCK_M * HEAD_DIM / 2, COLUMNS = BLOCK_M == 64 ? HEAD_DIM / 2 : HEAD_DIM;
  const RowOfThread at(args);
  if (at.row >= args.seq_q) return;
  const int row = at.row % BLOCK_M, part = BLOCK_M == 64 ? at.col / COLUMNS : row / 64;
  const int thread = row % 64 / 16 * WARP_SIZE + row % 8 * 4, half = row % 16 / 8;
  const float* sums = at.head.dq_sums(args) + static_cast<int64_t>(at.row - row) * HEAD_DIM + part * HALF +
                      (at.col % COLUMNS / 8 * 128 + thread) * 4 + half * 2;
  uint32_t pairs[4];
#pragma unroll
  for (int quad = 0; quad < 4; ++quad) {
    const auto pair = ld_global<float2>(sums + quad * 4);
    pairs[quad] = cvt_pack<Element>(pair.x * args.scale, pair.y * args.scale);
  }
  st_global(at.head.dq(args) + at.row * args.dq_stride.seq + at.col,
            make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]));
}

inline Error launch_convert_dq_fragments(const AttentionBackwardArgs& args, void* stream) {
  return launch_kernel<convert_dq_fragments>(RowOfThread::grid(args), ROW_THREADS, 0, stream, args);
}
