// dK and dV in stores of 16 bytes. In a result of wgmma four neighbouring lanes have a row, each two columns of every
// eight; they exchange pairs until each has eight neighbours, so that a row takes a quarter of the stores.
#pragma once

#include <bit>

#include <attention_backward/attention_backward.cuh>
#include <attention_backward/warpgroup_tiles.cuh>

DEVICE uint32_t exchange(uint32_t value, int lanes) {
  return std::bit_cast<uint32_t>(shfl_bfly(std::bit_cast<float>(value), lanes));
}

// Pair i of lane j of four becomes pair j of lane i.
DEVICE void transpose_quad(uint32_t (&pairs)[4]) {
  const bool odd = tid_x() & 1, upper = tid_x() & 2;
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const uint32_t even_pair = pairs[i], odd_pair = pairs[i + 1], other = exchange(odd ? even_pair : odd_pair, 1);
    pairs[i] = odd ? other : even_pair, pairs[i + 1] = odd ? odd_pair : other;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const uint32_t lower_pair = pairs[i], upper_pair = pairs[i + 2],
                   other = exchange(upper ? lower_pair : upper_pair, 2);
    pairs[i] = upper ? other : lower_pair, pairs[i + 2] = upper ? upper_pair : other;
  }
}

// As store_keys, but a lane stores eight neighbours at once.
DEVICE void store_keys_wide(const AttentionBackwardArgs& args, Element* gradient, int64_t row_stride, int key,
                            float factor, const float (&accumulators)[HEAD_DIM / 2]) {
  const int quad = tid_x() % 4;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    Element* row = gradient + (key + half * 8) * row_stride + quad * 8;
#pragma unroll
    for (int d = 0; d < HEAD_DIM / 8; d += 4) {
      uint32_t pairs[4];
#pragma unroll
      for (int i = 0; i < 4; ++i)
        pairs[i] = cvt_pack<Element>(accumulators[(d + i) * 4 + half * 2] * factor,
                                     accumulators[(d + i) * 4 + half * 2 + 1] * factor);
      transpose_quad(pairs);  // by all lanes, also where a row is past the end
      if (key + half * 8 < args.seq_kv) st_global(row + d * 8, make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]));
    }
  }
}
