// The order in which blocks take the tiles of C.
#pragma once

#include <gemm/gemm.cuh>

struct Tile {
  int row, col;  // of C: the tile's first
};

#ifdef GEMM_GROUP_M
constexpr int GROUP_M = GEMM_GROUP_M;
#else
constexpr int GROUP_M = 8;
#endif

// Consecutive blocks take a group of GROUP rows of tiles, column by column: those that run at the same time read
// GROUP row panels of A and a few of B, instead of one panel of A and all of B. The last group may have fewer rows.
template <int TILE_M = BLOCK_M, int TILE_N = BLOCK_N, int GROUP = GROUP_M>
DEVICE Tile grouped_tile(const GemmArgs& args, int number) {
  const int tiles_m = ceil_div(args.m, TILE_M), in_group = GROUP * ceil_div(args.n, TILE_N);
  const int first = number / in_group * GROUP, left = tiles_m - first;
  const int rows = left < GROUP ? left : GROUP;
  return {(first + number % in_group % rows) * TILE_M, number % in_group / rows * TILE_N};
}

template <int TILE_M = BLOCK_M, int TILE_N = BLOCK_N>
int tiles(const GemmArgs& args) {
  return ceil_div(args.m, TILE_M) * ceil_div(args.n, TILE_N);
}
