// An order of tiles of keys, and one of the additions to a tile of dQ, in which blocks hardly wait for each other. A
// block waits only for blocks that took smaller numbers from the counter: these have started, so that no kernel on
// another stream can keep them out.
#pragma once

#include <attention_backward/parts.cuh>
#include <ptx/turns.cuh>

struct OrderedParams {
  PartParams parts;
  int climbing;  // the heads of K and V that begin with their last keys: the first ones of all batches
  int mirrored;  // where heads share K and V, the tiles of keys that go down, the last of them first
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
  params.climbing = params.mirrored = 0;
  int multiprocessors;
  if (const Error error = multiprocessor_count(multiprocessors)) return error;
  if (CAUSAL) {
    const int pairs = 2 * multiprocessors / persistent.key_tiles, heads = args.heads_kv * args.batch;
    if (persistent.section > pairs) persistent.section = pairs > 1 ? pairs : 1;
    if (params.parts.shares.shared > 0) return Error{};
    if (args.heads > args.heads_kv)
      params.mirrored = persistent.key_tiles / 2;  // as PartTiles has it
    else if (heads >= 2 * persistent.section)
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

// How many of the head's tiles of keys come in reverse, before the others.
DEVICE int reversed(const OrderedParams& params, const PartTile& work) {
  return climbs(params, work) ? params.parts.persistent.key_tiles : params.mirrored;
}

// Number `number` of all.
DEVICE PartTile ordered_tile(const OrderedParams& params, int number) {
  PartTile work = PartTile::of(params.parts, number);
  const int last = (reversed(params, work) - 1) * BLOCK_N;
  if (!work.is_none() && work.kv_start <= last) work.kv_start = last - work.kv_start;
  return work;
}

// In a head that climbs, tiles go up from their diagonals: blocks that start together add to different tiles of dQ, and
// each comes to a tile one step or two after the block of the next keys. Other tiles go down from the last queries, but
// for short ones of heads that share K and V, which follow long ones. All of these are at the same queries. The longest
// of the long ones are the last to add, end last, and are followed by the shortest ones, which add last again.
struct OrderedTiles : PartTiles {
  DEVICE OrderedTiles(const OrderedParams& params, const PartTile& work) : PartTiles(params.parts, work) {
    const bool up = climbs(params, work) || (params.mirrored > 0 && ascends);
    if (up != ascends) ascends = up, tile = first + end - 1 - tile;
  }
};

// How many blocks add to a tile of queries before this one.
DEVICE uint32_t adders_before(const OrderedParams& params, const PartTile& work, int tile) {
  const int key_tile = work.kv_start / BLOCK_N, first = reversed(params, work);
  const int all = adders(params.parts.persistent.tma.args, tile);
  return key_tile < first ? (all < first ? all : first) - 1 - key_tile : key_tile;
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
