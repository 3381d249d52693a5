// Tiles of A and B that wgmma reads: their bytes, and descriptors of operands in them.
#pragma once

#include <gemm/gemm.cuh>
#include <ptx/wgmma.cuh>

constexpr int WARPGROUP_WARPS = 4;
constexpr int WARPGROUP = WARPGROUP_WARPS * WARP_SIZE;
constexpr int WARPGROUP_ROWS = 64;  // of one wgmma's result; each warp owns 16 of them
constexpr int MMA_K = 16;

constexpr int ROW_BYTES = BLOCK_K * ELEMENT_BYTES;
constexpr int A_BYTES = BLOCK_M * ROW_BYTES, B_BYTES = BLOCK_N * ROW_BYTES;
static_assert(ROW_BYTES == 128, "a row has the bytes that the swizzle permutes");
static_assert(A_BYTES % 1024 == 0 && B_BYTES % 1024 == 0, "the pattern of 8 rows starts at each buffer");

// The operand that begins at a row of a tile (a multiple of 8), k contiguous. Adding operand_columns or operand_rows
// moves it.
DEVICE uint64_t operand(uint32_t smem, int row = 0) {
  return wgmma_descriptor(smem + row * ROW_BYTES, 16, 8 * ROW_BYTES, Swizzle::bytes_128);
}
constexpr uint64_t operand_columns(int k) { return k * ELEMENT_BYTES / 16; }
constexpr uint64_t operand_rows(int rows) { return rows * ROW_BYTES / 16; }
