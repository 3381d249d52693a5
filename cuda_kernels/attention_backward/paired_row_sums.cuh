// row_sums, whose numbers of a tile lie in the order in which threads need them.
#pragma once

#include <attention_backward/row_sums.cuh>

// The place of a row's numbers in its tile: those of a thread's columns in two neighbouring blocks of eight are next to
// each other, so that one load of 16 bytes brings them.
DEVICE int paired_place(int row) { return row / 16 * 16 + row % 8 / 2 * 4 + row % 16 / 8 * 2 + row % 2; }

KERNEL(ROW_THREADS, 1) paired_row_sums(const AttentionBackwardArgs args) {
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
    st_global(at.head.dots(args) + paired_place(at.row), dot);
    st_global(at.head.lse_log2(args) + paired_place(at.row), lse == -INFINITY_F32 ? INFINITY_F32 : lse * LOG2_E);
  }
  float* sums = at.head.dq_sums(args) + static_cast<int64_t>(at.row) * HEAD_DIM + at.col;
  st_global(sums, make_float4(0.f, 0.f, 0.f, 0.f));
  st_global(sums + 4, make_float4(0.f, 0.f, 0.f, 0.f));
}

inline Error launch_paired_row_sums(const AttentionBackwardArgs& args, void* stream) {
  return launch_kernel<paired_row_sums>(RowOfThread::grid(args), ROW_THREADS, 0, stream, args);
}
