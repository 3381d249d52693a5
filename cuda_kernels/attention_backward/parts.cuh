// Tiles of keys that several blocks share: each has a part of the steps, and adds its dK and dV in global memory.
#pragma once

#include <attention_backward/descending_tiles.cuh>
#include <attention_backward/dq_turns.cuh>
#include <attention_backward/persistent_tiles.cuh>
#include <ptx/atom.cuh>
#include <ptx/barrier.cuh>
#include <ptx/fence.cuh>
#include <ptx/ld_st.cuh>
#include <ptx/red.cuh>
#include <ptx/shfl.cuh>

// How a launch shares out its tiles: the first `whole` ones go to a block each, the other ones to `parts` blocks each.
struct Shares {
  int whole, parts, shared;
};
struct PartParams {
  PersistentParams persistent;
  Shares shares;
  bool stores;  // the first block at a tile of dQ stores its part, and the others wait for it
  uint32_t* turns;
};

constexpr int MOST_PARTS = 8;
constexpr int MERGE_STEPS = 2;       // about what it costs a block to add a part
constexpr int LEAST_PART_STEPS = 4;  // of the longest tile's parts
constexpr int PART_NUMBERS = 2 * BLOCK_N * HEAD_DIM;

// Without a mask all tiles are as long, and those that are left after whole rounds of all multiprocessors are shared if
// the last round gets shorter. With one, long tiles come first and short ones fill the end; all are shared while a part
// of the longest is more than what a multiprocessor has to do.
inline Error share_out(Shares& shares, const AttentionBackwardArgs& args) {
  int multiprocessors;
  if (const Error error = multiprocessor_count(multiprocessors)) return error;
  const int query_tiles = ceil_div(args.seq_q, BLOCK_M), steps = query_tiles * (args.heads / args.heads_kv);
  const int tiles = ceil_div(args.seq_kv, BLOCK_N) * args.heads_kv * args.batch;
  int parts = 1, shared = 0;
  if constexpr (CAUSAL) {
    int64_t all_steps = 0;
    for (int key = 0; key < args.seq_kv; key += BLOCK_N) {
      const int first = key + args.seq_q - args.seq_kv;
      all_steps += query_tiles - (first > 0 ? first / BLOCK_M : 0);
    }
    all_steps *= args.heads * args.batch;
    const int64_t longest = static_cast<int64_t>(steps) * multiprocessors;
    while (parts < MOST_PARTS && longest > all_steps * parts && steps >= 2 * LEAST_PART_STEPS * parts)
      parts *= 2, shared = tiles;
  } else {
    const int left = tiles % multiprocessors;
    int shortest = steps;
    for (int n = 2; n <= MOST_PARTS && steps >= LEAST_PART_STEPS * n; ++n) {
      const int length = ceil_div(left * n, multiprocessors) * (ceil_div(steps, n) + MERGE_STEPS);
      if (left > 0 && length < shortest) shortest = length, parts = n, shared = left;
    }
  }
  shares = {tiles - shared, parts, shared};
  return Error{};
}

// The workspace has the counter of the tiles of keys, then the sums of shared tiles, then a counter for each warp of
// each, then the turns.
constexpr int SUMS_OFFSET = 128;
inline int64_t turns_offset(const Shares& shares) {
  return SUMS_OFFSET + shares.shared * (PART_NUMBERS * 4ll + WARPS * 4);
}
inline int64_t part_workspace_bytes(const AttentionBackwardArgs& args) {
  Shares shares{};
  if (share_out(shares, args) != 0) shares.shared = 0;  // without a GPU there is nothing to share
  return turns_offset(shares) + turn_bytes(args);
}
// The time to zero dQ grows with the number of queries. Waiting for the block that stores first takes a little of every
// step, and the number of steps grows with the square. Heads that share K and V wait more. Where the tiles do not fill
// the GPU, dQ is zeroed.
inline bool stores_pay(const AttentionBackwardArgs& args, int tiles, int multiprocessors) {
  return first_may_store(args) && tiles >= multiprocessors && args.seq_q <= (args.heads == args.heads_kv ? 8192 : 2048);
}
inline Error plan(PartParams& params) {
  PersistentParams& persistent = params.persistent;
  if (const Error error = share_out(params.shares, persistent.tma.args)) return error;
  params.turns =
      reinterpret_cast<uint32_t*>(static_cast<char*>(persistent.tma.args.workspace) + turns_offset(params.shares));
  if (const Error error = plan(persistent)) return error;
  int multiprocessors;
  if (const Error error = multiprocessor_count(multiprocessors)) return error;
  params.stores = stores_pay(persistent.tma.args, params.shares.whole + params.shares.shared, multiprocessors);
  persistent.total = params.shares.whole + params.shares.shared * params.shares.parts;
  persistent.blocks = persistent.total < multiprocessors ? persistent.total : multiprocessors;
  return Error{};
}

// A tile of keys, or a part of one.
struct alignas(16) PartTile {
  int kv_start, head_kv, batch;
  int part;  // of all parts of shared tiles, in their order; -1 for a whole tile

  DEVICE static PartTile of(const PartParams& params, int number) {
    const PersistentParams& persistent = params.persistent;
    if (number >= persistent.total) return {-1, 0, 0, -1};
    const int part = number - params.shares.whole;
    const int tile = part < 0 ? number : params.shares.whole + part / params.shares.parts;
    const WorkTile work = WorkTile::of(persistent, tile);
    return {work.kv_start, work.head_kv, work.batch, part < 0 ? -1 : part};
  }
  DEVICE bool is_none() const { return kv_start < 0; }
};

// The steps of a tile, or of a part of it, and which way they go. With a mask a multiprocessor has a long tile first
// and then a short one. The shorter that is, the later it starts: going up from its diagonal, it is at the same queries
// as the other short tiles of its head.
struct PartTiles : DescendingTiles {
  bool ascends;

  DEVICE PartTiles(const PartParams& params, const PartTile& work)
      : DescendingTiles(params.persistent.tma.args, work.kv_start, work.head_kv),
        ascends(CAUSAL && work.kv_start >= params.persistent.key_tiles / 2 * BLOCK_N) {
    if (work.part >= 0) {
      const int parts = params.shares.parts, part = work.part % parts;
      const int begin = part * steps / parts, over = (part + 1) * steps / parts;
      head += begin % heads, tile -= begin / heads;
      steps = over - begin;
    }
    if (ascends) tile = first + end - 1 - tile;
  }
  DEVICE void advance() {
    if (++head == first_head + heads) head = first_head, tile += ascends ? 1 : -1;
  }
};

// A warp adds its 16 rows of dK and dV of a part to the tile's sums. The warp that does so last takes the sums and
// leaves zeros: true for it.
DEVICE bool merge_part(const PartParams& params, int part, float (&dk)[HEAD_DIM / 2], float (&dv)[HEAD_DIM / 2]) {
  const AttentionBackwardArgs& args = params.persistent.tma.args;
  const int tile = part / params.shares.parts, warp = tid_x() / WARP_SIZE, lane = tid_x() % WARP_SIZE;
  float* sums = reinterpret_cast<float*>(static_cast<char*>(args.workspace) + SUMS_OFFSET);
  auto* counters = reinterpret_cast<uint32_t*>(sums + static_cast<int64_t>(params.shares.shared) * PART_NUMBERS);
  sums += static_cast<int64_t>(tile) * PART_NUMBERS + tid_x() * 4;
  constexpr int NEXT = WARPS * WARP_SIZE * 4;  // a thread's next four numbers
#pragma unroll
  for (int i = 0; i < HEAD_DIM / 2; i += 4) {
    red_add_v4(sums + i / 2 * NEXT, make_float4(dk[i], dk[i + 1], dk[i + 2], dk[i + 3]));
    red_add_v4(sums + (i / 2 + 1) * NEXT, make_float4(dv[i], dv[i + 1], dv[i + 2], dv[i + 3]));
  }
  bar_warp_sync();
  bool is_last = false;
  if (lane == 0) {
    fence_acq_rel_gpu();
    const uint32_t last = params.shares.parts - 1;
    is_last = atom_inc(counters + tile * WARPS + warp, last) == last;
    fence_acq_rel_gpu();
  }
  if (!shfl_idx(is_last, 0)) return false;
#pragma unroll
  for (int i = 0; i < HEAD_DIM / 2; i += 4) {
    const auto of_dk = ld_global<float4>(sums + i / 2 * NEXT), of_dv = ld_global<float4>(sums + (i / 2 + 1) * NEXT);
    dk[i] = of_dk.x, dk[i + 1] = of_dk.y, dk[i + 2] = of_dk.z, dk[i + 3] = of_dk.w;
    dv[i] = of_dv.x, dv[i + 1] = of_dv.y, dv[i + 2] = of_dv.z, dv[i + 3] = of_dv.w;
    st_global(sums + i / 2 * NEXT, make_float4(0.f, 0.f, 0.f, 0.f));
    st_global(sums + (i / 2 + 1) * NEXT, make_float4(0.f, 0.f, 0.f, 0.f));
  }
  return true;
}
