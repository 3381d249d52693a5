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
// column, and L2 delivers 46 bytes a clock to each multiprocessor; what a tile's end costs is a prediction.
template <int CLUSTER, int TILE_N>
int64_t cost(const StreamParams& params) {
  const auto& [tma, tiles, blocks] = params.staged.persistent;
  constexpr int L2 = (A_BYTES + TILE_N * ROW_BYTES / CLUSTER) / 46, STEP = L2 > 4 * TILE_N ? L2 : 4 * TILE_N;
  constexpr int STORE = 8 * TILE_N, HAND_ON = 24 * TILE_N;
  const int64_t k_tiles = ceil_div(tma.args.k, BLOCK_K), streamed = params.streamed;
  const int64_t whole = ceil_div(tiles - params.streamed, blocks) * (k_tiles * STEP + STORE);
  return streamed ? whole + (streamed * k_tiles / params.sharers + 1) * STEP + STORE + HAND_ON : whole;
}
