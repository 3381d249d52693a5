// An order of tiles of keys, and one of the additions to a tile of dQ, in which blocks hardly wait for each other. A
// block waits only for blocks that took smaller numbers from the counter: these have started, so that no kernel on
// another stream can keep them out.
#pragma once

#include <attention_backward/parts.cuh>
#include <ptx/turns.cuh>

struct OrderedParams {
  PartParams parts;
  int climbing;  // the heads of K and V that begin with their last keys: the first ones of all batches
};

// Heads of K and V in a section, without a mask. With fewer, more blocks of a head wait for each other at its start.
constexpr int FULL_SECTION = 4;

// With a mask a section has at most two tiles of keys for each multiprocessor, as in paired_tiles, but one head at
// least; all but the last sections climb, unless heads share K and V. The first block to add stores: all wait anyway.
inline Error plan(OrderedParams& params) {
  if (const Error error = plan(params.parts)) return error;
  PersistentParams& persistent = params.parts.persistent;
  const AttentionBackwardArgs& args = persistent.tma.args;
  params.parts.stores = first_may_store(args);
  params.climbing = 0;
  int multiprocessors;
  if (const Error error = multiprocessor_count(multiprocessors)) return error;
  if (CAUSAL) {
    const int pairs = 2 * multiprocessors / persistent.key_tiles, heads = args.heads_kv * args.batch;
    if (persistent.section > pairs) persistent.section = pairs > 1 ? pairs : 1;
    if (args.heads == args.heads_kv && params.parts.shares.shared == 0 && heads >= 2 * persistent.section)
      params.climbing = (heads / persistent.section - 1) * persistent.section;
  } else {
    const int fill = multiprocessors / persistent.key_tiles;
    persistent.section = fill > FULL_SECTION ? fill : FULL_SECTION;
  }
  return Error{};
}

DEVICE bool climbs(const OrderedParams& params, const PartTile& work) {
  return CAUSAL && work.batch * params.parts.persistent.tma.args.heads_kv + work.head_kv < params.climbing;
}

// Number `number` of all. Heads that climb begin with their last keys, which the fewest queries see.
DEVICE PartTile ordered_tile(const OrderedParams& params, int number) {
  PartTile work = PartTile::of(params.parts, number);
  if (!work.is_none() && climbs(params, work))
    work.kv_start = (params.parts.persistent.key_tiles - 1) * BLOCK_N - work.kv_start;
  return work;
}

// In a head that climbs, tiles go up from their diagonals: blocks that start together add to different tiles of dQ, and
// each comes to a tile one step or two after the block of the next keys. Other tiles go down from the last queries, but
// for short ones of heads that share K and V: there all query heads have a step at each tile, and waits are short.
struct OrderedTiles : PartTiles {
  DEVICE OrderedTiles(const OrderedParams& params, const PartTile& work) : PartTiles(params.parts, work) {
    const AttentionBackwardArgs& args = params.parts.persistent.tma.args;
    const bool is_short = ascends && work.part < 0 && args.heads > args.heads_kv;
    const bool up = is_short || climbs(params, work);
    if (up != ascends) ascends = up, tile = first + end - 1 - tile;
  }
};

// How many blocks add to a tile of queries before this one.
DEVICE uint32_t adders_before(const OrderedParams& params, const PartTile& work, int tile) {
  const uint32_t key_tile = work.kv_start / BLOCK_N;
  return climbs(params, work) ? adders(params.parts.persistent.tma.args, tile) - 1 - key_tile : key_tile;
}

// A warp returns once the parts before this one are added to the sums of its rows.
DEVICE void wait_for_parts(const PartParams& params, int part) {
  auto* sums = static_cast<char*>(params.persistent.tma.args.workspace) + SUMS_OFFSET;
  auto* counters = reinterpret_cast<uint32_t*>(sums + params.shares.shared * (PART_NUMBERS * 4ll));
  const uint32_t before = part % params.shares.parts;
  if (tid_x() % WARP_SIZE == 0) {
    uint32_t* const added = counters + part / params.shares.parts * WARPS + tid_x() / WARP_SIZE;
    while (ld_acquire(added) != before) {
    }
  }
  bar_warp_sync();
}
