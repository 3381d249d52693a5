// dQ whose sums lie as accumulators that have a row for each column of dQ, and a column for each query.
#pragma once

#include <attention_backward/attention_backward.cuh>
#include <ptx/ld_st.cuh>
#include <ptx/math.cuh>

constexpr int DQ_ROWS = 64;  // of a warpgroup's accumulators: it has half of the columns of dQ

// A tile of BLOCK_M queries has the numbers of one warpgroup, then those of the other: of the first 8 queries 4 numbers
// of each thread, then of the next 8 queries, and so on. The 4 are columns c and c + 8 of two queries.
//
// A warp converts half of the columns of 8 queries, a lane 8 neighbours of two queries.
constexpr int CONVERT_THREADS = 256, CONVERT_QUERIES = CONVERT_THREADS / WARP_SIZE / 2 * 8;

KERNEL(CONVERT_THREADS, 1) convert_transposed_dq(const AttentionBackwardArgs args) {
  constexpr int PART = BLOCK_M * DQ_ROWS, EIGHT = 8 * DQ_ROWS;  // numbers of a warpgroup, and of 8 queries of it
  const int warp = tid_x() / WARP_SIZE, lane = tid_x() % WARP_SIZE;
  const int part = warp % 2, pair = lane % 4 * 2, half = lane / 4 % 2, columns = lane / 8 * 16;
  const int first = ctaid_x() * CONVERT_QUERIES + warp / 2 * 8;  // query
  if (first >= args.seq_q) return;
  const Head head(args, ctaid_z(), ctaid_y());
  const float* sums = head.dq_sums(args) + static_cast<int64_t>(first / BLOCK_M) * (2 * PART) + part * PART +
                      first % BLOCK_M / 8 * EIGHT + columns * 8 + pair * 2 + half * 2;
  float2 numbers[8];  // of the two queries, column by column
#pragma unroll
  for (int i = 0; i < 8; ++i) numbers[i] = ld_global<float2>(sums + i * 16);
  Element* const dq = head.dq(args) + part * DQ_ROWS + columns + half * 8;
  auto store = [&](int query, auto number) {
    uint32_t pairs[4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
      pairs[i] = cvt_pack<Element>(number(numbers[i * 2]) * args.scale, number(numbers[i * 2 + 1]) * args.scale);
    if (query < args.seq_q)
      st_global(dq + query * args.dq_stride.seq, make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]));
  };
  store(first + pair, [](float2 of) { return of.x; });
  store(first + pair + 1, [](float2 of) { return of.y; });
}

inline Error launch_convert_transposed_dq(const AttentionBackwardArgs& args, void* stream) {
  const Grid grid{ceil_div(args.seq_q, CONVERT_QUERIES), args.heads, args.batch};
  return launch_kernel<convert_transposed_dq>(grid, CONVERT_THREADS, 0, stream, args);
}
