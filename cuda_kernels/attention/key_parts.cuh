// The keys of a tile cut into parts, one block each, and the join of what the parts leave in the workspace.
#pragma once

#include <attention/attention.cuh>
#include <attention/packed_rows.cuh>
#include <ptx/barrier.cuh>
#include <ptx/device.cuh>
#include <ptx/ld_st.cuh>
#include <ptx/math.cuh>
#include <ptx/shfl.cuh>

struct PartsParams {
  AttentionArgs args;
  int parts;
};

// Blocks of `shared_bytes` that the shared memory of a multiprocessor holds (228 KB, of which each block reserves 1
// KB), but no more than leave a thread enough registers.
constexpr int resident_blocks(int shared_bytes) {
  constexpr int MOST = WARPS < 8 ? 8 / WARPS : 1;
  const int fit = 228 * 1024 / (shared_bytes + 1024);
  return fit < MOST ? fit : MOST;
}

// Most parts of a tile, because one block joins them, and tiles that have parts, because each has a counter.
constexpr int MAX_PARTS = 64, MAX_COUNTERS = 1024;

// As many parts as occupy every multiprocessor with `resident` blocks at once. Where the tiles alone need more than one
// wave of blocks, a few parts, if they shorten the last wave. No part is empty unless the mask hides it.
inline Error parts_of(const AttentionArgs& args, int resident, int& parts) {
  constexpr int FEW = 4, START = 4;  // key tiles that could be read in the time in which a block starts and ends
  int multiprocessors;
  const Error error = multiprocessor_count(multiprocessors);
  const int slots = resident * multiprocessors, tiles = PackedRows::blocks(args);
  const int key_tiles = ceil_div(args.seq_kv, BLOCK_N);
  parts = slots / tiles < MAX_PARTS ? slots / tiles : MAX_PARTS;
  if (parts < 1) {
    auto cost = [&](int n) { return ceil_div(tiles * n, slots) * (ceil_div(key_tiles, n) + START); };
    parts = 1;
    for (int n = 2; n <= FEW; ++n)
      if (cost(n) < cost(parts)) parts = n;
  }
  if (tiles > MAX_COUNTERS) parts = 1;
  if (parts > key_tiles) parts = key_tiles;
  parts = ceil_div(key_tiles, ceil_div(key_tiles, parts));
  return error;
}

// The workspace of several parts, in units of 4 bytes: the counters of the tiles, which are zero again when a kernel
// ends, then O of every row and part, normalized, then its log2-sum-exp2.
struct Workspace {
  int64_t rows;
  int parts;

  DEVICE Workspace(const PartsParams& params) : rows(rows_of(params.args)), parts(params.parts) {}
  static constexpr int rows_of(const AttentionArgs& args) { return args.batch * args.heads * args.seq_q; }
  // Bytes beyond the counters; 0 where there is one part.
  static int unzeroed_bytes(const AttentionArgs& args, int resident) {
    int parts;
    if (parts_of(args, resident, parts) || parts == 1) return 0;
    return 4 * rows_of(args) * parts * (HEAD_DIM + 1);
  }
  static int bytes(const AttentionArgs& args, int resident) {
    const int unzeroed = unzeroed_bytes(args, resident);
    return unzeroed ? 4 * MAX_COUNTERS + unzeroed : 0;
  }
  DEVICE uint32_t* counter(const PartsParams& params, int tile) const {
    return static_cast<uint32_t*>(params.args.workspace) + tile;
  }
  DEVICE float* o(const PartsParams& params, int64_t row, int part) const {
    return static_cast<float*>(params.args.workspace) + MAX_COUNTERS + (row * parts + part) * HEAD_DIM;
  }
  DEVICE float* lse(const PartsParams& params, int64_t row, int part) const {
    return static_cast<float*>(params.args.workspace) + MAX_COUNTERS + rows * parts * HEAD_DIM + row * parts + part;
  }
};

// A row in the registers of a warp: a lane has PAIRS pairs of neighbouring columns of O, which is normalized.
struct JoinedRow {
  static constexpr int PAIRS = HEAD_DIM / (2 * WARP_SIZE);
  float columns[PAIRS][2] = {};
  float lse;  // log2-sum-exp2

  DEVICE static int column(int pair) { return (pair * WARP_SIZE + tid_x() % WARP_SIZE) * 2; }
  DEVICE void add(float weight, int pair, const float2& two) {
    columns[pair][0] += weight * two.x, columns[pair][1] += weight * two.y;
  }
  DEVICE void normalize(float largest, float sum) {
    const float inverse = sum == 0.f ? 0.f : rcp_approx_ftz(sum);
    for (int i = 0; i < PAIRS; ++i) columns[i][0] *= inverse, columns[i][1] *= inverse;
    lse = sum == 0.f ? -INFINITY_F32 : largest + lg2_approx_ftz(sum);
  }
  // Position `row` of (batch, heads, seq_q), whose O is at `o`.
  DEVICE void store(const AttentionArgs& args, int64_t row, Element* o) const {
    for (int i = 0; i < PAIRS; ++i) st_global(o + column(i), cvt_pack<Element>(columns[i][0], columns[i][1]));
    if (tid_x() % WARP_SIZE == 0) st_global(args.lse + row, lse * LN_2);
  }
};

// Executed by one warp: joins the parts of row `row` of (batch, heads, seq_q), whose O is at `o`.
DEVICE void join(const PartsParams& params, int64_t row, Element* o) {
  const Workspace workspace(params);
  float largest = -INFINITY_F32, sum = 0.f;
  for (int part = tid_x() % WARP_SIZE; part < params.parts; part += WARP_SIZE)
    largest = max_f32(largest, ld_global<float>(workspace.lse(params, row, part)));
  for (int mask = WARP_SIZE / 2; mask; mask /= 2) largest = max_f32(largest, shfl_bfly(largest, mask));
  const float base = largest == -INFINITY_F32 ? 0.f : largest;
  JoinedRow joined;
#pragma unroll 8
  for (int part = 0; part < params.parts; ++part) {  // eight parts are on their way at once
    const float weight = ex2_approx_ftz(ld_global<float>(workspace.lse(params, row, part)) - base);
    sum += weight;
    for (int i = 0; i < JoinedRow::PAIRS; ++i)
      joined.add(weight, i, ld_global<float2>(workspace.o(params, row, part) + JoinedRow::column(i)));
  }
  joined.normalize(base, sum);
  joined.store(params.args, row, o);
}

// Executed by all warps of a block: joins the parts of a tile's rows. `smem`, a multiple of 16, has room for what warps
// note of every row (16 bytes) and for a weight of every row and part. Addresses and weights come first, in little code
// that is executed row by row; then a warp has loads of all its rows on their way at once.
DEVICE void join_tile(const PartsParams& params, const PackedRows& rows, uint32_t smem) {
  constexpr int ROWS = BLOCK_M / WARPS;  // of a warp
  constexpr int AT_ONCE = ROWS < 16 ? 16 / ROWS : 1;
  static_assert(ROWS * WARPS == BLOCK_M);
  const Workspace workspace(params);
  const int warp = shfl_idx(tid_x() / WARP_SIZE, 0), lane = tid_x() % WARP_SIZE;
  const uint32_t notes = smem, weights = smem + BLOCK_M * 16;
#pragma unroll 1
  for (int row = warp; row < BLOCK_M && rows.exists(row); row += WARPS) {
    const int64_t place = rows.place(params.args, row);
    float largest = -INFINITY_F32, sum = 0.f;
    for (int part = lane; part < params.parts; part += WARP_SIZE)
      largest = max_f32(largest, ld_global<float>(workspace.lse(params, place, part)));
    for (int mask = WARP_SIZE / 2; mask; mask /= 2) largest = max_f32(largest, shfl_bfly(largest, mask));
    const float base = largest == -INFINITY_F32 ? 0.f : largest;
    for (int part = lane; part < params.parts; part += WARP_SIZE) {
      const float weight = ex2_approx_ftz(ld_global<float>(workspace.lse(params, place, part)) - base);
      st_shared(weights + (row * MAX_PARTS + part) * 4, weight);
      sum += weight;
    }
    for (int mask = WARP_SIZE / 2; mask; mask /= 2) sum += shfl_bfly(sum, mask);
    if (lane > 0) continue;
    st_global(params.args.lse + place, sum == 0.f ? -INFINITY_F32 : (base + lg2_approx_ftz(sum)) * LN_2);
    st_shared(notes + row * 16, rows.o(params.args, row) - static_cast<Element*>(params.args.o));
    st_shared(notes + row * 16 + 8, static_cast<int>(place) * params.parts * HEAD_DIM);
    st_shared(notes + row * 16 + 12, sum == 0.f ? 0.f : rcp_approx_ftz(sum));
  }
  bar_warp_sync();  // the warp's notes and weights are there
  const float* parts = workspace.o(params, 0, 0) + JoinedRow::column(0);
  int first[ROWS];
#pragma unroll
  for (int i = 0; i < ROWS; ++i)
    first[i] = rows.exists(i * WARPS + warp) ? ld_shared<int>(notes + (i * WARPS + warp) * 16 + 8) : -1;
  JoinedRow joined[ROWS];
#pragma unroll AT_ONCE
  for (int part = 0; part < params.parts; ++part) {
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
      if (first[i] < 0) continue;
      const float weight = ld_shared<float>(weights + ((i * WARPS + warp) * MAX_PARTS + part) * 4);
      for (int pair = 0; pair < JoinedRow::PAIRS; ++pair)
        joined[i].add(weight, pair, ld_global<float2>(parts + first[i] + part * HEAD_DIM + pair * 2 * WARP_SIZE));
    }
  }
#pragma unroll
  for (int i = 0; i < ROWS; ++i) {
    if (first[i] < 0) continue;
    const uint32_t note = notes + (i * WARPS + warp) * 16;
    const float inverse = ld_shared<float>(note + 12);
    Element* o = static_cast<Element*>(params.args.o) + ld_shared<int64_t>(note);
    for (int pair = 0; pair < JoinedRow::PAIRS; ++pair)
      st_global(o + JoinedRow::column(pair),
                cvt_pack<Element>(joined[i].columns[pair][0] * inverse, joined[i].columns[pair][1] * inverse));
  }
}
