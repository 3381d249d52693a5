// Persistent blocks: one per multiprocessor, each working on tile after tile; or clusters of them, on taller tiles.
#pragma once

#include <gemm/tile_order.cuh>
#include <gemm/tma_params.cuh>
#include <ptx/device.cuh>

struct PersistentParams {
  TmaParams tma;
  int tiles, blocks;  // of a cluster, tiles of all its blocks; and clusters
};

// Encodes the maps and sets the number of tiles and of the blocks that share them. The blocks of a cluster have one
// tile of C below the other and load equal shares of B.
template <int CLUSTER = 1>
Error prepare(PersistentParams& params) {
  int multiprocessors;
  if (const Error error = multiprocessor_count(multiprocessors)) return error;
  multiprocessors /= CLUSTER;
  params.tiles = tiles<CLUSTER * BLOCK_M>(params.tma.args);
  params.blocks = params.tiles < multiprocessors ? params.tiles : multiprocessors;
  return encode<BLOCK_N / CLUSTER>(params.tma);
}
