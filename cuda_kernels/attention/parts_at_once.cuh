// The join of parts, as in key_parts.cuh, where latency decides: a warp has loads of all its rows, and of as many parts
// as registers hold, on their way at once. Parts that are not there load nothing and weigh 0, so no part is left over.
#pragma once

#include <bit>

#include <attention/key_parts.cuh>

constexpr int WARP_ROWS = BLOCK_M / WARPS;  // that a warp joins: i * WARPS + warp
static_assert(WARP_ROWS * WARPS == BLOCK_M && WARP_ROWS <= WARP_SIZE);

// Where the rows of a warp are. Lane i computes it for row i * WARPS + warp: one pass of divisions serves all rows.
struct RowPlaces {
  int place;       // in (batch, heads, seq_q); -1 if the tile has no such row
  int64_t offset;  // in O

  DEVICE RowPlaces(const AttentionArgs& args, const PackedRows& rows) {
    const int lane = tid_x() % WARP_SIZE, row = lane * WARPS + tid_x() / WARP_SIZE;
    const bool exists = lane < WARP_ROWS && rows.exists(row);
    place = exists ? static_cast<int>(rows.place(args, row)) : -1;
    offset = exists ? rows.o(args, row) - static_cast<Element*>(args.o) : 0;
  }
  DEVICE int place_of(int i) const { return shfl_idx(place, i); }
  DEVICE Element* o_of(int i, const AttentionArgs& args) const {
    const int64_t high = shfl_idx(static_cast<int>(offset >> 32), i);
    return static_cast<Element*>(args.o) + (high << 32 | static_cast<uint32_t>(shfl_idx(static_cast<int>(offset), i)));
  }
};

// A lane's log2-sum-exps of two parts of every row become weights that add up to 1; `rows` get those of whole rows.
DEVICE void weigh(float (&parts)[WARP_ROWS][2], JoinedRow (&rows)[WARP_ROWS]) {
  float largest[WARP_ROWS], sum[WARP_ROWS];
#pragma unroll
  for (int i = 0; i < WARP_ROWS; ++i) largest[i] = max_f32(parts[i][0], parts[i][1]);
#pragma unroll
  for (int mask = WARP_SIZE / 2; mask; mask /= 2)
#pragma unroll
    for (int i = 0; i < WARP_ROWS; ++i) largest[i] = max_f32(largest[i], shfl_bfly(largest[i], mask));
#pragma unroll
  for (int i = 0; i < WARP_ROWS; ++i) {
    if (largest[i] == -INFINITY_F32) largest[i] = 0.f;
    for (float& part : parts[i]) part = ex2_approx_ftz(part - largest[i]);
    sum[i] = parts[i][0] + parts[i][1];
  }
#pragma unroll
  for (int mask = WARP_SIZE / 2; mask; mask /= 2)
#pragma unroll
    for (int i = 0; i < WARP_ROWS; ++i) sum[i] += shfl_bfly(sum[i], mask);
#pragma unroll
  for (int i = 0; i < WARP_ROWS; ++i) {
    const float inverse = sum[i] == 0.f ? 0.f : rcp_approx_ftz(sum[i]);
    parts[i][0] *= inverse, parts[i][1] *= inverse;
    rows[i].lse = sum[i] == 0.f ? -INFINITY_F32 : largest[i] + lg2_approx_ftz(sum[i]);
  }
}

// Executed by all warps of a block: joins the parts of a tile's rows.
DEVICE void join_parts_at_once(const PartsParams& params, const RowPlaces& places) {
  constexpr int AT_ONCE = WARP_ROWS < 16 ? 16 / WARP_ROWS : 1;  // parts of a row
  static_assert(MAX_PARTS == 2 * WARP_SIZE && WARP_SIZE % AT_ONCE == 0);
  const Workspace workspace(params);
  const int lane = tid_x() % WARP_SIZE;
  int place[WARP_ROWS];
  float weights[WARP_ROWS][2];  // of parts `lane` and WARP_SIZE + lane
#pragma unroll
  for (int i = 0; i < WARP_ROWS; ++i) {
    place[i] = places.place_of(i);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int part = half * WARP_SIZE + lane;
      const bool exists = place[i] >= 0 && part < params.parts;
      weights[i][half] = exists ? ld_global<float>(workspace.lse(params, place[i], part)) : -INFINITY_F32;
    }
  }
  const float* parts = workspace.o(params, 0, 0) + JoinedRow::column(0);
  JoinedRow joined[WARP_ROWS];
#pragma unroll 1
  for (int first = 0; first < params.parts; first += AT_ONCE) {
    float2 loaded[WARP_ROWS][AT_ONCE][JoinedRow::PAIRS] = {};
#pragma unroll
    for (int i = 0; i < WARP_ROWS; ++i)
#pragma unroll
      for (int n = 0; n < AT_ONCE; ++n)
        if (place[i] >= 0 && first + n < params.parts)
#pragma unroll
          for (int pair = 0; pair < JoinedRow::PAIRS; ++pair)
            loaded[i][n][pair] =
                ld_global<float2>(parts + (place[i] * params.parts + first + n) * HEAD_DIM + pair * 2 * WARP_SIZE);
    bar_warp_sync();  // without it the compiler puts some of these loads behind the wait for the log-sum-exps
    if (first == 0) weigh(weights, joined);
#pragma unroll
    for (int i = 0; i < WARP_ROWS; ++i)
#pragma unroll
      for (int n = 0; n < AT_ONCE; ++n) {
        const float own = first < WARP_SIZE ? weights[i][0] : weights[i][1];
        const float weight = std::bit_cast<float>(shfl_idx(std::bit_cast<int>(own), (first + n) % WARP_SIZE));
#pragma unroll
        for (int pair = 0; pair < JoinedRow::PAIRS; ++pair) joined[i].add(weight, pair, loaded[i][n][pair]);
      }
  }
#pragma unroll
  for (int i = 0; i < WARP_ROWS; ++i) {
    Element* o = places.o_of(i, params.args);
    if (place[i] >= 0) joined[i].store(params.args, place[i], o);
  }
}
