// Persistent blocks: one per multiprocessor, each working on tile after tile; or clusters of them, on taller tiles.
#pragma once

#include <gemm/tile_order.cuh>
#include <gemm/tma_params.cuh>
#include <ptx/device.cuh>

struct PersistentParams {
  TmaParams tma;
  int tiles, blocks;  // with clusters: tiles as tall as a cluster's blocks together, and clusters
};

// How many blocks, or clusters, run at the same time. At least two: the CPU runtime has two multiprocessors in all.
template <int CLUSTER = 1>
Error most_blocks(int& blocks) {
  const Error error = multiprocessor_count(blocks);
  blocks = blocks / CLUSTER < 2 ? 2 : blocks / CLUSTER;
  return error;
}

// Encodes the maps and sets the number of tiles and of the blocks that share them. The blocks of a cluster have one
// tile of C below the other and load equal shares of B.
template <int CLUSTER = 1>
Error prepare(PersistentParams& params) {
  if (const Error error = most_blocks<CLUSTER>(params.blocks)) return error;
  params.tiles = tiles<CLUSTER * BLOCK_M>(params.tma.args);
  if (params.tiles < params.blocks) params.blocks = params.tiles;
  return encode<BLOCK_N / CLUSTER>(params.tma);
}

// The fewest blocks that need no more waves: 128 at 4096 cubed, so that a wave of square_waves is whole columns of a
// group.
inline void level_waves(PersistentParams& params) {
  params.blocks = ceil_div(params.tiles, ceil_div(params.tiles, params.blocks));
}
