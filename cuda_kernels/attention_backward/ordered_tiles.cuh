// The order in which blocks go through the tiles of queries, and the order in which they add to one.
#pragma once

#include <attention_backward/attention_backward.cuh>
#include <attention_backward/tma_params.cuh>

struct OrderedParams {
  TmaParams tma;
  int key_tiles, blocks;
  bool rotates;
};

// The keys of the block that started as number `number`.
struct KeyTile {
  int tile, head_kv, batch;

  DEVICE KeyTile(const OrderedParams& params, int number) {
    const int place = number % params.key_tiles, heads_kv = params.tma.args.heads_kv;
    tile = CAUSAL ? params.key_tiles - 1 - place : place;
    head_kv = number / params.key_tiles % heads_kv;
    batch = number / params.key_tiles / heads_kv;
  }
};

// As QueryTiles, but a head's first tiles come last where blocks wrap around.
struct OrderedTiles : QueryTiles {
  int start;

  DEVICE OrderedTiles(const OrderedParams& params, int key_tile, int head_kv)
      : QueryTiles(params.tma.args, key_tile * BLOCK_N, head_kv), start(first) {
    if (params.rotates) tile = start = key_tile * end / params.key_tiles;
  }
  DEVICE void advance() {
    if (++tile == end) tile = first;
    if (tile == start) ++head;
  }
};

// How many blocks add to a tile of queries, and how many of them before the block of `key_tile`.
struct Turn {
  int adders, before;

  DEVICE Turn(const OrderedParams& params, int tile, int key_tile, int tiles) : adders(params.key_tiles) {
    const AttentionBackwardArgs& args = params.tma.args;
    before = key_tile;
    if (CAUSAL) {
      const int last_key = (tile + 1) * BLOCK_M - 1 + args.seq_kv - args.seq_q;  // not negative: a block adds here
      const int last = static_cast<int>(static_cast<uint32_t>(last_key) / BLOCK_N);
      adders = last < params.key_tiles ? last + 1 : params.key_tiles;
      before = adders - 1 - key_tile;
    } else if (params.rotates) {  // blocks that begin at this tile or before, the last one first; then the others
      const int begun = ((tile + 1) * params.key_tiles - 1) / tiles + 1;
      before = key_tile < begun ? begun - 1 - key_tile : begun + params.key_tiles - 1 - key_tile;
    }
  }
};
