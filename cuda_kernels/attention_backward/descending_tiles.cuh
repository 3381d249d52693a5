// The tiles of queries that a block goes through, from the last one on.
#pragma once

#include <attention_backward/tma_params.cuh>

struct DescendingTiles : QueryTiles {
  DEVICE DescendingTiles(const AttentionBackwardArgs& args, int kv_start, int head_kv)
      : QueryTiles(args, kv_start, head_kv) {
    tile = end - 1;
  }
  DEVICE void advance() {
    if (tile-- == first) tile = end - 1, ++head;
  }
};
