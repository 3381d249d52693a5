// Stream-K: workers, which are blocks or clusters, share the steps of some tiles evenly instead of having whole tiles.
// Osama et al., arXiv 2301.03598; some tiles stay whole, as in their hybrid.
#pragma once

#include <gemm/c_staging.cuh>

struct StreamParams {
  StagedParams staged;
  int streamed, sharers;  // the first tiles, whose steps are shared, and by how many workers
};

constexpr int FULL_ENOUGH = 94;  // percent of their waves that whole tiles fill: from here on no step is shared
constexpr int LEAST_STEPS = 8;   // of a sharer

// Workers share the steps of the tiles beyond whole waves and of one wave more, so that no share is short.
template <int CLUSTER = 1, int TILE_N = BLOCK_N>
Error share_steps(StreamParams& params, int full_enough = FULL_ENOUGH, int least_steps = LEAST_STEPS) {
  auto& [tma, tiles, blocks] = params.staged.persistent;
  int workers;
  if (const Error error = most_blocks<CLUSTER>(workers)) return error;
  tiles = ::tiles<CLUSTER * BLOCK_M, TILE_N>(tma.args);
  const int waves = ceil_div(tiles, workers), k_tiles = ceil_div(tma.args.k, BLOCK_K);
  const bool full = static_cast<int64_t>(tiles) * 100 >= static_cast<int64_t>(waves) * workers * full_enough;
  params.streamed = full ? 0 : tiles - (waves > 2 ? waves - 2 : 0) * workers;
  const int64_t most = static_cast<int64_t>(params.streamed) * k_tiles / least_steps;
  params.sharers = most < 1 ? 1 : most < workers ? static_cast<int>(most) : workers;
  if (tiles < params.sharers)
    params.sharers -= params.sharers % tiles;  // equal parts: tiles side by side share A and B
  blocks = tiles < workers ? tiles : workers;
  if (params.streamed > 0 && (params.sharers == workers || params.sharers > blocks)) {
    blocks = params.sharers;
  } else {
    params.streamed = 0;  // whole tiles occupy as many
    level_waves(params.staged.persistent);
  }
  return Error{};
}

// What a worker does, a run of steps of one tile at a time: its share of the shared steps, from its end to its
// beginning, and then whole tiles. Backwards, what another worker waits for is done first, and the waiting last.
struct Work {
  int tile, first, last;    // the run: steps of the tile
  int k_tiles, begin, end;  // of the share, what is left
  int next;                 // whole tile

  DEVICE static int share(const StreamParams& params, int k_tiles, int worker) {
    return static_cast<int64_t>(params.streamed) * k_tiles * worker / params.sharers;
  }
  DEVICE Work(const StreamParams& params, int k_tiles, int worker)
      : k_tiles(k_tiles),
        begin(share(params, k_tiles, worker)),
        end(share(params, k_tiles, worker + 1)),
        next(params.streamed + worker) {}
  // False: there is no more.
  DEVICE bool take(const StreamParams& params) {
    if (begin < end) {
      tile = (end - 1) / k_tiles, last = end - tile * k_tiles;
      first = last > end - begin ? last - (end - begin) : 0;
      end -= last - first;
      return true;
    }
    tile = next, first = 0, last = k_tiles;
    next += params.staged.persistent.blocks;
    return tile < params.staged.persistent.tiles;
  }
};

// Where the threads of one block leave their sums for the next worker: a flag for each warp, and sums of each thread.
template <int TILE_N = BLOCK_N>
struct Slot {
  uint32_t* flag;
  float4* sums;

  static constexpr int FLAGS = WARPS, FLOATS = BLOCK_M * TILE_N;
  DEVICE Slot(const GemmArgs& args, int number, int numbers) {
    flag = static_cast<uint32_t*>(args.workspace) + number * FLAGS + tid_x() / WARP_SIZE;
    float* all = static_cast<float*>(args.workspace) + numbers * FLAGS;
    sums = reinterpret_cast<float4*>(all + static_cast<int64_t>(number) * FLOATS) + tid_x();
  }
  static int bytes(int numbers) { return numbers * (FLAGS + FLOATS) * 4; }
};
