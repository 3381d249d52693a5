// row_sums that also zeros the sums of dQ, for a main kernel that starts while it runs.
#pragma once

#include <attention_backward/row_sums.cuh>
#include <ptx/grid_dependency.cuh>

KERNEL(ROW_THREADS, 1) early_row_sums(const AttentionBackwardArgs args) {
  griddepcontrol_launch_dependents();
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
  float* sums = at.head.dq_sums(args) + static_cast<int64_t>(at.row) * HEAD_DIM + at.col;
  st_global(sums, make_float4(0.f, 0.f, 0.f, 0.f));
  st_global(sums + 4, make_float4(0.f, 0.f, 0.f, 0.f));
}

inline Error launch_early_row_sums(const AttentionBackwardArgs& args, void* stream) {
  return launch_kernel<early_row_sums>(RowOfThread::grid(args), ROW_THREADS, 0, stream, args);
}
