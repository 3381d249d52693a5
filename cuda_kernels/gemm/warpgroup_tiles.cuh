// How warpgroups share a tile of C: each has whole 64 rows, all columns of them.
#pragma once

#include <gemm/operands.cuh>

constexpr int M_TILES = BLOCK_M / (WARPS / WARPGROUP_WARPS * WARPGROUP_ROWS);  // of a warpgroup
static_assert(M_TILES * WARPS * 16 == BLOCK_M, "a warpgroup owns whole 64 rows, all columns of them");
