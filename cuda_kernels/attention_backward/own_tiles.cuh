// Which tiles of dQ a block converts: every so many of all, as many apart as there are blocks.
#pragma once

#include <attention_backward/dq_workspace.cuh>
#include <ptx/atom.cuh>
#include <ptx/shfl.cuh>

// The number of the next tile of keys for this block; the counter is 0 again after the last block's last question.
DEVICE int next_work(const PersistentParams& params) {
  return atom_inc(static_cast<uint32_t*>(params.tma.args.workspace), params.total + params.blocks - 1);
}

struct OwnTiles {
  int number, blocks;
  int seen, unseen, all;  // tiles of queries of a head that see a key or none; those of all heads that see one

  DEVICE explicit OwnTiles(const PersistentParams& params) : number(ctaid_x()), blocks(params.blocks) {
    const AttentionBackwardArgs& args = params.tma.args;
    const int rows = CAUSAL ? args.seq_q - args.seq_kv : 0;
    unseen = rows > 0 ? rows / BLOCK_M : 0;
    seen = ceil_div(args.seq_q, BLOCK_M) - unseen;
    all = seen * args.heads * args.batch;
  }
  DEVICE bool some_are_left() const { return number < all; }

  // Converts the next tile if it is complete, or once it is. Tiles are in the order in which blocks complete them: of a
  // head of K and V the last queries first, of all its query heads.
  DEVICE void convert_next(const PersistentParams& params, bool waits, uint32_t smem, uint32_t full, int& copies) {
    const AttentionBackwardArgs& args = params.tma.args;
    const int group = args.heads / args.heads_kv, pair = number / (seen * group), place = number % (seen * group);
    const int head = pair % args.heads_kv * group + place % group;
    const DqTile at{pair / args.heads_kv, head, unseen + seen - 1 - place / group};
    bool is_complete = false;
    if (tid_x() % WARP_SIZE == 0) {
      do is_complete = atom_add(at.counter(args), 0) == static_cast<uint32_t>(adders(params, at.tile));
      while (waits && !is_complete);
    }
    if (!shfl_idx(is_complete, 0)) return;
    convert_tile(args, at, smem, full, copies++ % 2);
    if (tid_x() % WARP_SIZE == 0) atom_exch(at.counter(args), 0);
    number += blocks;
  }
};
