// Which tile a block works on, where the grid order is not the tile order.
#pragma once

#include <attention/attention.cuh>
#include <ptx/shfl.cuh>

// Launch order: in a causal problem the blocks with the most keys start first, so that short ones fill the tail. Heads
// are grouped into sections whose K and V fit together in 16 MB, about a quarter of the L2 cache of an H200. The grid
// has one dimension. Persistent blocks have the same order, in sections of 32 MB (persistent_tiles.cuh).
struct LongestFirst {
  int batch, head, q_tile;

  DEVICE LongestFirst(const AttentionArgs& args, int block) {
    constexpr int L2_BYTES = 16 << 20;
    const int heads = args.batch * args.heads, q_tiles = ceil_div(args.seq_q, BLOCK_M);
    const int fitting = L2_BYTES / (HEAD_DIM * 2 * ELEMENT_BYTES) / args.seq_kv;
    const int section_heads = fitting > 0 ? fitting : 1;
    const int first_head = block / (section_heads * q_tiles) * section_heads;
    const int here = heads - first_head < section_heads ? heads - first_head : section_heads;
    const int rest = block - first_head * q_tiles;
    // A quotient is computed in every lane; after a broadcast from lane 0 the compiler knows it is uniform.
    const int batch_head = shfl_idx(first_head + rest % here, 0);
    batch = batch_head / args.heads;
    head = batch_head % args.heads;
    q_tile = shfl_idx(q_tiles - 1 - rest / here, 0);
  }
  static int blocks(const AttentionArgs& args) { return args.batch * args.heads * ceil_div(args.seq_q, BLOCK_M); }
};
