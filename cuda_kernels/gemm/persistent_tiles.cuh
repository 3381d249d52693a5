// Persistent blocks: one per multiprocessor, each working on tile after tile.
#pragma once

#include <gemm/tile_order.cuh>
#include <gemm/tma_params.cuh>
#include <ptx/device.cuh>

struct PersistentParams {
  TmaParams tma;
  int tiles, blocks;
};

// Encodes the maps and sets the number of tiles and of the blocks that share them.
inline Error prepare(PersistentParams& params) {
  int multiprocessors;
  if (const Error error = multiprocessor_count(multiprocessors)) return error;
  params.tiles = tiles(params.tma.args);
  params.blocks = params.tiles < multiprocessors ? params.tiles : multiprocessors;
  return encode(params.tma);
}
