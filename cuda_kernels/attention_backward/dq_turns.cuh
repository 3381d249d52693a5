// Turns at dQ: each tile of queries has two counters, one for each warpgroup's part, of the blocks that have added to
// it. deterministic fixes the order of all additions by them; the flagship only lets the first block store before
// others add.
#pragma once

#include <attention_backward/attention_backward.cuh>
#include <ptx/turns.cuh>

// How many blocks add to a tile of queries: those of the keys that its last row sees.
DEVICE uint32_t adders(const AttentionBackwardArgs& args, int tile) {
  return ceil_div(last_key(args, (tile + 1) * BLOCK_M - 1) + 1, BLOCK_N);
}

inline int64_t turn_bytes(const AttentionBackwardArgs& args) {
  return static_cast<int64_t>(args.batch) * args.heads * ceil_div(args.seq_q, BLOCK_M) * 2 * 4;
}
DEVICE uint32_t* turn_of(uint32_t* turns, const AttentionBackwardArgs& args, int batch, int head, int tile, int part) {
  const int tiles = ceil_div(args.seq_q, BLOCK_M);
  return turns + ((batch * args.heads + head) * tiles + tile) * 2 + part;
}

// True if every tile of queries sees a key, and so has a first block: it stores, and nobody has to zero the sums.
inline bool first_may_store(const AttentionBackwardArgs& args) { return !CAUSAL || args.seq_q - args.seq_kv < BLOCK_M; }
