// Tiles in shared memory that warps multiply by mma.sync: their addresses, their loads, the products.
#pragma once

#include <attention_backward/attention_backward.cuh>
#include <ptx/cp_async.cuh>
#include <ptx/ldmatrix.cuh>
#include <ptx/mma.cuh>

constexpr int MMA_M = 16, MMA_N = 8, MMA_K = 16;
constexpr int THREADS = WARPS * WARP_SIZE;

// Address of an element in a tile of COLUMNS columns: its 16-byte column is XORed with the row.
template <int COLUMNS>
DEVICE uint32_t tile_address(uint32_t smem, int row, int col) {
  static_assert(COLUMNS * ELEMENT_BYTES % 128 == 0, "the XOR permutes within 128 bytes");
  return smem + row * (COLUMNS * ELEMENT_BYTES) + ((col * ELEMENT_BYTES) ^ ((row & 7) * 16));
}
// Moves an address by `row` rows (a multiple of 8) and `col` columns (a multiple of 16, without a carry).
template <int COLUMNS>
DEVICE uint32_t advance(uint32_t address, int row, int col) {
  return (address ^ (col * ELEMENT_BYTES)) + row * (COLUMNS * ELEMENT_BYTES);
}

// The block copies a tile of TILE_ROWS rows; rows from `valid_rows` on are filled with zeros.
template <int TILE_ROWS>
DEVICE void load_tile(uint32_t smem, const Element* gmem, int64_t row_stride, int valid_rows) {
  constexpr int CHUNK = 16 / ELEMENT_BYTES;           // elements per 16-byte access
  constexpr int ROWS = THREADS / (HEAD_DIM / CHUNK);  // rows that the block copies per pass
  static_assert(TILE_ROWS % ROWS == 0);
  const int row = tid_x() / (HEAD_DIM / CHUNK), col = tid_x() % (HEAD_DIM / CHUNK) * CHUNK;
  gmem += row * row_stride + col;
#pragma unroll
  for (int i = 0; i < TILE_ROWS / ROWS; ++i, gmem += ROWS * row_stride)
    cp_async_cg_16_zfill(tile_address<HEAD_DIM>(smem, row + i * ROWS, col), gmem, row + i * ROWS < valid_rows ? 16 : 0);
}

// How an operand lies in its tile: the dimension that the product sums over is that of the columns, or of the rows.
enum class Sum { over_columns, over_rows };

// The address that this lane passes to ldmatrix for the first fragment of A, whose first element is at (row, col) ...
template <Sum SUM, int COLUMNS>
DEVICE uint32_t a_lane(uint32_t smem, int row, int col) {
  const int lane = tid_x() % WARP_SIZE;
  return SUM == Sum::over_columns ? tile_address<COLUMNS>(smem, row + lane % 16, col + lane / 16 * 8)
                                  : tile_address<COLUMNS>(smem, row + lane % 8 + lane / 16 * 8, col + lane / 8 % 2 * 8);
}
// ... and of B.
template <Sum SUM, int COLUMNS>
DEVICE uint32_t b_lane(uint32_t smem, int row, int col) {
  const int lane = tid_x() % WARP_SIZE;
  return SUM == Sum::over_columns ? tile_address<COLUMNS>(smem, row + lane % 8 + lane / 16 * 8, col + lane / 8 % 2 * 8)
                                  : tile_address<COLUMNS>(smem, row + lane % 16, col + lane / 16 * 8);
}

// c += A B of a warp for one k16 step: 16 rows, N columns; `k` is where the step begins.
template <Sum B_SUM, int B_COLUMNS, int N>
DEVICE void multiply_step(float (&c)[N][4], const uint32_t (&a)[4], uint32_t b, int k) {
#pragma unroll
  for (int n = 0; n < N; n += 2) {
    uint32_t b_regs[4];
    if constexpr (B_SUM == Sum::over_columns)
      ldmatrix_x4(b_regs, advance<B_COLUMNS>(b, n * MMA_N, k));
    else
      ldmatrix_x4_trans(b_regs, advance<B_COLUMNS>(b, k, n * MMA_N));
    mma_m16n8k16<Element>(c[n], a, b_regs);
    mma_m16n8k16<Element>(c[n + 1], a, b_regs + 2);
  }
}

// The same for K of them, with A and B from shared memory (addresses of a_lane and b_lane).
template <int K, Sum A_SUM, int A_COLUMNS, Sum B_SUM, int B_COLUMNS, int N>
DEVICE void multiply(float (&c)[N][4], uint32_t a, uint32_t b) {
#pragma unroll
  for (int k = 0; k < K; k += MMA_K) {
    uint32_t a_regs[4];
    if constexpr (A_SUM == Sum::over_columns)
      ldmatrix_x4(a_regs, advance<A_COLUMNS>(a, 0, k));
    else
      ldmatrix_x4_trans(a_regs, advance<A_COLUMNS>(a, k, 0));
    multiply_step<B_SUM, B_COLUMNS>(c, a_regs, b, k);
  }
}
