// Tiles in shared memory that warpgroups multiply by wgmma: their sizes, their descriptors, and what a warpgroup stores
// and adds of its accumulators.
#pragma once

#include <attention_backward/attention_backward.cuh>
#include <ptx/ld_st.cuh>
#include <ptx/math.cuh>
#include <ptx/red.cuh>
#include <ptx/shfl.cuh>
#include <ptx/stmatrix.cuh>
#include <ptx/wgmma.cuh>

constexpr int WARPGROUP_WARPS = 4;
constexpr int WARPGROUP = WARPGROUP_WARPS * WARP_SIZE;
constexpr int WARPGROUP_ROWS = 64;  // of one wgmma; each warp owns 16 of them
constexpr int MMA_K = 16;

constexpr int SLAB = 64;  // columns spanned by the 128-byte swizzle; a tile is stored slab by slab, all rows in each
constexpr int SLABS = HEAD_DIM / SLAB;
constexpr int ROW_BYTES = SLAB * ELEMENT_BYTES;
constexpr int Q_BYTES = BLOCK_M * HEAD_DIM * ELEMENT_BYTES;
constexpr int KV_BYTES = BLOCK_N * HEAD_DIM * ELEMENT_BYTES;
static_assert(HEAD_DIM % SLAB == 0 && ROW_BYTES == 128);
static_assert(BLOCK_N * WARPGROUP == WARPGROUP_ROWS * WARPS * WARP_SIZE, "each warpgroup owns 64 keys");

// Address of an element in a tile of ROWS rows.
template <int ROWS>
DEVICE uint32_t slab_address(uint32_t smem, int row, int col) {
  return smem + col / SLAB * (ROWS * ROW_BYTES) + row * ROW_BYTES + ((col % SLAB * ELEMENT_BYTES) ^ ((row & 7) * 16));
}

// wgmma descriptors of a tile of ROWS rows: rows of the operand are rows of the tile (K-major), from `row` on, a
// multiple of 8; or the product sums over the rows (MN-major), from column `col` on, a multiple of 64. Built once, then
// advanced along the sum by adding an offset.
DEVICE uint64_t k_major(uint32_t smem, int row = 0) {
  return wgmma_descriptor(smem + row * ROW_BYTES, 16, 8 * ROW_BYTES, Swizzle::bytes_128);
}
template <int ROWS>
constexpr uint64_t k_major_columns(int columns) {
  return (columns / SLAB * (ROWS * ROW_BYTES) + columns % SLAB * ELEMENT_BYTES) / 16;
}
template <int ROWS>
DEVICE uint64_t mn_major(uint32_t smem, int row = 0, int col = 0) {
  return wgmma_descriptor(smem + col / SLAB * (ROWS * ROW_BYTES) + row * ROW_BYTES, ROWS * ROW_BYTES, 8 * ROW_BYTES,
                          Swizzle::bytes_128);
}
constexpr uint64_t mn_major_rows(int rows) { return rows * ROW_BYTES / 16; }

// Accumulators in 16 bits, as the left operand of a product that sums over their columns.
template <int N>
DEVICE void pack(uint32_t (&fragments)[N / MMA_K][4], const float (&accumulators)[N / 2]) {
#pragma unroll
  for (int n = 0; n < N / MMA_K; ++n)
    for (int i = 0; i < 4; ++i)
      fragments[n][i] = cvt_pack<Element>(accumulators[n * 8 + i * 2], accumulators[n * 8 + i * 2 + 1]);
}

// The compiler cannot move any use of these registers across this point.
template <int COUNT>
DEVICE void register_fence(uint32_t (&fragments)[COUNT][4]) {
#pragma unroll
  for (int i = 0; i < COUNT; ++i) register_fence(fragments[i]);
}

// A warp stores its 16 rows of N columns as 16 columns, from `col` on, of the first N rows of a slab.
template <int N>
DEVICE void store_transposed(uint32_t slab, int col, const uint32_t (&fragments)[N / MMA_K][4]) {
  const int lane = tid_x() % WARP_SIZE;
  const uint32_t address = slab_address<N>(slab, lane % 8 + lane / 16 * 8, col + lane / 8 % 2 * 8);
#pragma unroll
  for (int n = 0; n < N / MMA_K; ++n) stmatrix_x4_trans(address + n * (MMA_K * ROW_BYTES), fragments[n]);
}

// A warp adds its 16 rows of N columns; `sums` is where this lane's row (lane / 4) begins. Pairs of lanes exchange two
// of a fragment's numbers, so that one has four neighbours of a row and the other one of the row 8 below.
template <int N>
DEVICE void add_rows(float* sums, const float (&accumulators)[N / 2]) {
  const int quad = tid_x() % 4, odd = quad % 2;
  sums += odd * 8 * HEAD_DIM + (quad - odd) * 2;
#pragma unroll
  for (int n = 0; n < N / 8; ++n) {
    const float* mine = accumulators + n * 4;
    const float first = shfl_bfly(odd ? mine[0] : mine[2], 1), second = shfl_bfly(odd ? mine[1] : mine[3], 1);
    red_add_v4(sums + n * 8,
               odd ? make_float4(first, second, mine[2], mine[3]) : make_float4(mine[0], mine[1], first, second));
  }
}

// A lane writes its two rows of a gradient of the keys, times `factor`; `key` is the first of them.
DEVICE void store_keys(const AttentionBackwardArgs& args, Element* gradient, int64_t row_stride, int key, float factor,
                       const float (&accumulators)[HEAD_DIM / 2]) {
  const int quad = tid_x() % 4;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (key + half * 8 >= args.seq_kv) continue;
    Element* row = gradient + (key + half * 8) * row_stride + quad * 2;
#pragma unroll
    for (int d = 0; d < HEAD_DIM / 8; ++d)
      st_global(row + d * 8, cvt_pack<Element>(accumulators[d * 4 + half * 2] * factor,
                                               accumulators[d * 4 + half * 2 + 1] * factor));
  }
}

// Where the scores are transposed, a tile of dQ is 64 times 128 numbers or 128 times 64: each of two warpgroups has
// half of the columns, or of the rows.
constexpr int DQ_COLUMNS = BLOCK_M == WARPGROUP_ROWS ? HEAD_DIM / 2 : HEAD_DIM;  // of a warpgroup
struct DqPart {
  int row, col;

  DEVICE explicit DqPart(int warpgroup)
      : row(BLOCK_M == WARPGROUP_ROWS ? 0 : warpgroup * WARPGROUP_ROWS),
        col(BLOCK_M == WARPGROUP_ROWS ? warpgroup * DQ_COLUMNS : 0) {}
};
