// Tiles of A and B in which either dimension is contiguous. With k contiguous a tile is one box, whose rows have 64
// elements of k. With m or n contiguous it is several boxes, one after another: each has BLOCK_K rows of k with 64
// elements of m or n, the 128 bytes of the swizzle. It is then MN-major, and wgmma transposes it as it reads.
#pragma once

#include <gemm/operands.cuh>
#include <gemm/persistent_tiles.cuh>

#ifdef GEMM_M_CONTIGUOUS
constexpr bool M_CONTIGUOUS = true;  // in A
#else
constexpr bool M_CONTIGUOUS = false;
#endif
#ifdef GEMM_N_CONTIGUOUS
constexpr bool N_CONTIGUOUS = true;  // in B
#else
constexpr bool N_CONTIGUOUS = false;
#endif

constexpr int BOX = ROW_BYTES / ELEMENT_BYTES;  // elements of m or n
constexpr int BOX_BYTES = BLOCK_K * ROW_BYTES;
static_assert(BLOCK_M % BOX == 0 && BLOCK_N % BOX == 0, "a tile is whole boxes");

// The operand that begins at `row` of A or B, a multiple of 64. The address is the same whichever dimension is
// contiguous, because 64 rows of 128 bytes are as long as a box. The first distance is that between boxes, which wgmma
// ignores with k contiguous; the second is that between groups of 8 rows: of k with m or n contiguous.
DEVICE uint64_t major_operand(uint32_t smem, int row = 0) {
  return wgmma_descriptor(smem + row * ROW_BYTES, BOX_BYTES, 8 * ROW_BYTES, Swizzle::bytes_128);
}
// What moves an operand by k: down the rows if TRANSPOSED, else along them.
template <bool TRANSPOSED>
constexpr uint64_t major_columns(int k) {
  return TRANSPOSED ? operand_rows(k) : operand_columns(k);
}

// As prepare of persistent_tiles.cuh, but the first dimension of each map is the contiguous one.
inline Error prepare_majors(PersistentParams& params) {
  const GemmArgs& args = params.tma.args;
  if (const Error error = most_blocks(params.blocks)) return error;
  params.tiles = tiles(args);
  if (params.tiles < params.blocks) params.blocks = params.tiles;
  auto encode = [&](TensorMap& map, const void* base, bool transposed, int rows, int64_t stride, uint32_t box) {
    const uint64_t length = rows, depth = args.k;
    return tensor_map_encode_tiled<Element, 2>(map, base, {transposed ? length : depth, transposed ? depth : length},
                                               {static_cast<uint64_t>(stride * ELEMENT_BYTES)},
                                               {BOX, transposed ? BLOCK_K : box}, Swizzle::bytes_128);
  };
  const Error error = encode(params.tma.a, args.a, M_CONTIGUOUS, args.m, args.a_stride, BLOCK_M);
  return error == 0 ? encode(params.tma.b, args.b, N_CONTIGUOUS, args.n, args.b_stride, BLOCK_N) : error;
}
