// The keys of a tile cut into parts, one block each, and the join of what the parts leave in the workspace.
#pragma once

#include <attention/attention.cuh>
#include <attention/packed_rows.cuh>
#include <ptx/barrier.cuh>
#include <ptx/device.cuh>
#include <ptx/ld_st.cuh>
#include <ptx/math.cuh>

struct PartsParams {
  AttentionArgs args;
  int parts;
};

// As many parts as give each multiprocessor a few blocks, each of at least 256 keys. Depends on sizes alone, not on the
// tile, because the workspace does.
inline Error parts_of(const AttentionArgs& args, int& parts) {
  constexpr int ROWS = 16, KEYS = 256, BLOCKS_PER_MULTIPROCESSOR = 4;
  int multiprocessors;
  const Error error = multiprocessor_count(multiprocessors);
  const int group = args.heads / args.heads_kv;
  const int wanted =
      BLOCKS_PER_MULTIPROCESSOR * multiprocessors / (args.batch * args.heads_kv * ceil_div(group * args.seq_q, ROWS));
  const int most = ceil_div(args.seq_kv, KEYS);
  parts = wanted < 1 ? 1 : wanted < most ? wanted : most;
  return error;
}

// The workspace of several parts, in units of 4 bytes: a counter for each tile (room for one a row), then O of every
// row and part, normalized, then its log2-sum-exp2. All is zero again when a kernel ends.
struct Workspace {
  int64_t rows;
  int parts;

  DEVICE Workspace(const PartsParams& params) : rows(rows_of(params.args)), parts(params.parts) {}
  // A multiple of 4, so that O is aligned.
  static constexpr int rows_of(const AttentionArgs& args) { return (args.batch * args.heads * args.seq_q + 3) / 4 * 4; }
  static int bytes(const AttentionArgs& args) {
    int parts;
    if (parts_of(args, parts) || parts == 1) return 0;
    return 4 * rows_of(args) * (1 + parts * (HEAD_DIM + 1));
  }
  DEVICE uint32_t* counter(const PartsParams& params, int tile) const {
    return static_cast<uint32_t*>(params.args.workspace) + tile;
  }
  DEVICE float* o(const PartsParams& params, int64_t row, int part) const {
    return static_cast<float*>(params.args.workspace) + rows + (row * parts + part) * HEAD_DIM;
  }
  DEVICE float* lse(const PartsParams& params, int64_t row, int part) const {
    return static_cast<float*>(params.args.workspace) + rows + rows * parts * HEAD_DIM + row * parts + part;
  }
};

// Executed by one warp: joins the parts of row `row` of (batch, heads, seq_q), whose O is at `o`; leaves zeros behind.
DEVICE void join(const PartsParams& params, int64_t row, Element* o) {
  const Workspace workspace(params);
  const int lane = tid_x() % WARP_SIZE;
  constexpr int PAIRS = HEAD_DIM / (2 * WARP_SIZE);  // of neighbouring columns that a lane has
  float largest = -INFINITY_F32, sum = 0.f, columns[PAIRS][2] = {};
  for (int part = 0; part < params.parts; ++part)
    largest = max_f32(largest, ld_global<float>(workspace.lse(params, row, part)));
  const float base = largest == -INFINITY_F32 ? 0.f : largest;
#pragma unroll 4
  for (int part = 0; part < params.parts; ++part) {
    const float weight = ex2_approx_ftz(ld_global<float>(workspace.lse(params, row, part)) - base);
    sum += weight;
    for (int i = 0; i < PAIRS; ++i) {
      const auto pair = ld_global<float2>(workspace.o(params, row, part) + (i * WARP_SIZE + lane) * 2);
      columns[i][0] += weight * pair.x, columns[i][1] += weight * pair.y;
    }
  }
  const float inverse = sum == 0.f ? 0.f : rcp_approx_ftz(sum);
  for (int i = 0; i < PAIRS; ++i)
    st_global(o + (i * WARP_SIZE + lane) * 2, cvt_pack<Element>(columns[i][0] * inverse, columns[i][1] * inverse));
  if (lane == 0) st_global(params.args.lse + row, sum == 0.f ? -INFINITY_F32 : (base + lg2_approx_ftz(sum)) * LN_2);
  bar_warp_sync();  // every lane has read the parts
  for (int i = lane * 2; i < params.parts * HEAD_DIM; i += WARP_SIZE * 2)
    st_global(workspace.o(params, row, 0) + i, float2{0.f, 0.f});
  for (int i = lane; i < params.parts; i += WARP_SIZE) st_global(workspace.lse(params, row, i), 0.f);
}
