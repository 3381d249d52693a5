// The tiles of queries that a block goes through, from the last one on, and at each all heads that share K and V:
// blocks with different diagonals stay at the same tile of the same head until they end.
#pragma once

#include <attention_backward/tma_params.cuh>

struct DescendingTiles : QueryTiles {
  int heads, first_head;

  DEVICE DescendingTiles(const AttentionBackwardArgs& args, int kv_start, int head_kv)
      : QueryTiles(args, kv_start, head_kv), heads(args.heads / args.heads_kv), first_head(head) {
    tile = end - 1;
  }
  DEVICE void advance() {
    if (++head == first_head + heads) head = first_head, --tile;
  }
};
