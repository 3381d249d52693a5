// Which tile a block works on: head after head, as core Triton's head_by_head deals them out.
#pragma once

#include <attention/attention.cuh>
#include <ptx/shfl.cuh>

// The number of a block names its tile: head after head, the last q_tile of each head first. With a causal mask the
// last heads are taken together, longest tiles first, so that short tiles fill the end.
struct HeadByHead {
  int batch, head, q_tile;

  DEVICE HeadByHead(const AttentionArgs& args, int number) {
    constexpr int LAST_ROWS = 1 << 15;  // one to two waves of the blocks of an H200
    const int heads = args.batch * args.heads, q_tiles = ceil_div(args.seq_q, BLOCK_M);
    int batch_head = number / q_tiles, place = number % q_tiles;
    if (CAUSAL) {
      const int fitting = ceil_div(LAST_ROWS / BLOCK_M, q_tiles);
      const int last_heads = fitting < heads ? fitting : heads;
      const int rest = number - (heads - last_heads) * q_tiles;
      if (rest >= 0) batch_head = heads - last_heads + rest % last_heads, place = rest / last_heads;
    }
    // A quotient is computed in every lane; after a broadcast from lane 0 the compiler knows it is uniform.
    batch_head = shfl_idx(batch_head, 0);
    batch = batch_head / args.heads;
    head = batch_head % args.heads;
    q_tile = shfl_idx(q_tiles - 1 - place, 0);
  }
};
