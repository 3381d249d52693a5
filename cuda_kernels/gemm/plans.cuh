// What a schedule costs, for a host that chooses one.
#pragma once

#include <gemm/streams.cuh>

struct Plan {
  StreamParams params;
  int workspace;  // bytes
  int64_t cost;
  Error (*launch)(StreamParams&, void* stream);
};

// Clocks of the busiest worker, a cluster with tiles of TILE_N columns. `step`: clocks of one step. It, STORE (the end
// of a tile) and HAND_ON (sums that pass once through the workspace) are fitted to times on one H100.
template <int TILE_N>
int64_t cost(const StreamParams& params, int step) {
  const auto& [tma, tiles, blocks] = params.staged.persistent;
  constexpr int STORE = 12 * TILE_N, HAND_ON = 3000 + 140 * TILE_N;
  const int64_t k_tiles = ceil_div(tma.args.k, BLOCK_K);
  const int64_t whole = ceil_div(tiles - params.streamed, blocks) * (k_tiles * step + STORE);
  if (params.streamed == 0) return whole;
  const int64_t share = params.streamed * k_tiles / params.sharers + 1;
  const int64_t parts = (k_tiles + share / 2) / share;  // of a tile, from other workers
  return whole + share * step + STORE + (parts > 1 ? parts : 1) * HAND_ON;
}

constexpr int LEAST_OF_FEW = 96;  // steps of a sharer: few rows wait for memory, which half of the blocks keep busy

// Makes `best` the plan for this tile if it costs less, with whole tiles or, if SHARES, with shared steps. FEW: A
// and B, and m and n, change places.
template <int TILE_N, int CLUSTER, bool FEW, bool SHARES>
Error consider(Plan& best, const GemmArgs& args, int step, Error (*launch)(StreamParams&, void*)) {
  Plan plan{{{{{args}}}}, 0, 0, launch};
  if (FEW) {
    GemmArgs& a = plan.params.staged.persistent.tma.args;
    a.a = args.b, a.a_stride = args.b_stride, a.m = args.n, a.b = args.a, a.b_stride = args.a_stride, a.n = args.m;
  }
  for (const int full_enough : {0, FULL_ENOUGH}) {
    if (!SHARES && full_enough > 0) continue;
    if (const Error error = share_steps<CLUSTER, TILE_N>(plan.params, full_enough, FEW ? LEAST_OF_FEW : LEAST_STEPS))
      return error;
    plan.cost = cost<TILE_N>(plan.params, step);
    plan.workspace = plan.params.streamed ? Slot<TILE_N>::bytes(plan.params.sharers * CLUSTER) : 0;
    if (best.launch == nullptr || plan.cost < best.cost) best = plan;
  }
  return Error{};
}
