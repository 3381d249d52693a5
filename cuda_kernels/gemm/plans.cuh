// What a schedule costs, for a host that chooses one.
#pragma once

#include <gemm/streams.cuh>

struct Plan {
  StreamParams params;
  int workspace;  // bytes
  int64_t cost;
  Error (*launch)(StreamParams&, void* stream);
};

// Clocks of the busiest worker, a cluster with tiles of TILE_N columns. A step takes the tensor cores four clocks a
// column, and L2 delivers 46 bytes a clock to each multiprocessor. What a tile's end costs, and each time that sums
// pass through the workspace, was fitted to one H100.
template <int CLUSTER, int TILE_N>
int64_t cost(const StreamParams& params) {
  const auto& [tma, tiles, blocks] = params.staged.persistent;
  constexpr int L2 = (A_BYTES + TILE_N * ROW_BYTES / CLUSTER) / 46, STEP = L2 > 4 * TILE_N ? L2 : 4 * TILE_N;
  constexpr int STORE = 12 * TILE_N, HAND_ON = 100 * TILE_N;
  const int k_tiles = ceil_div(tma.args.k, BLOCK_K);
  const int64_t whole = ceil_div(tiles - params.streamed, blocks) * (static_cast<int64_t>(k_tiles) * STEP + STORE);
  if (params.streamed == 0) return whole;
  const int64_t share = static_cast<int64_t>(params.streamed) * k_tiles / params.sharers + 1;
  return whole + share * STEP + STORE + (k_tiles + share - 1) / share * HAND_ON;
}

// Makes `best` the plan for this tile if it costs less, with whole tiles or, for single blocks, with shared steps. FEW:
// with A and B, and m and n, in each other's place.
template <int TILE_N, int CLUSTER, bool FEW>
Error consider(Plan& best, const GemmArgs& args, Error (*launch)(StreamParams&, void*)) {
  Plan plan{{{{{args}}}}, 0, 0, launch};
  if (FEW) {
    GemmArgs& a = plan.params.staged.persistent.tma.args;
    a.a = args.b, a.a_stride = args.b_stride, a.m = args.n, a.b = args.a, a.b_stride = args.a_stride, a.n = args.m;
  }
  for (const int full_enough : {0, FULL_ENOUGH}) {
    if (CLUSTER > 1 && full_enough > 0) continue;
    if (const Error error = share_steps<CLUSTER, TILE_N>(plan.params, full_enough)) return error;
    plan.cost = cost<CLUSTER, TILE_N>(plan.params);
    plan.workspace = plan.params.streamed ? Slot<TILE_N>::bytes(plan.params.sharers) : 0;
    if (best.launch == nullptr || plan.cost < best.cost) best = plan;
  }
  return Error{};
}
