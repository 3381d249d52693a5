// Blocks that run at the same time share rows of A and of B, so that these stay in L2.
// Builds on cp_async_pipeline; changes which tile of C a block takes.
//
// Blocks start in the order of their numbers. In the parent they go along a row of tiles: those that run at the same
// time read few panels of A and, over and over, all of B. Here they go down a group of eight rows of tiles and then to
// the next column (tile_order.cuh), so that they read about as many panels of A as of B. Data moves as in
// cp_async_pipeline, behind the same waits and barrier.
#include <gemm/gemm.cuh>
#include <ptx/barrier.cuh>
#include <ptx/cp_async.cuh>
#include <ptx/ldmatrix.cuh>
#include <ptx/mma.cuh>
#include <ptx/shfl.cuh>
#include <gemm/tile_order.cuh>

namespace {

constexpr int THREADS = WARPS * WARP_SIZE;
constexpr int MMA_M = 16, MMA_N = 8, MMA_K = 16;
constexpr int WARPS_M = 2, WARPS_N = WARPS / WARPS_M;  // the block's warps as a grid
constexpr int M_TILES = BLOCK_M / (WARPS_M * MMA_M);   // mma tiles of a warp along the rows of C
constexpr int N_TILES = BLOCK_N / (WARPS_N * MMA_N);   // and along its columns
static_assert(WARPS % WARPS_M == 0 && BLOCK_M % (WARPS_M * MMA_M) == 0 && BLOCK_N % (WARPS_N * 2 * MMA_N) == 0);
static_assert(STAGES >= 2, "the next tile is loaded while this one is multiplied");

constexpr int ROW_BYTES = BLOCK_K * ELEMENT_BYTES;
constexpr int A_BYTES = BLOCK_M * ROW_BYTES, B_BYTES = BLOCK_N * ROW_BYTES;
static_assert(ROW_BYTES == 128);

struct SharedMemory {
  static constexpr int a = 0;
  static constexpr int b = a + STAGES * A_BYTES;
  static constexpr int bytes = b + STAGES * B_BYTES;
};

// Address of an element in a tile of A or B: its 16-byte column is XORed with the row.
DEVICE uint32_t tile_address(uint32_t smem, int row, int col) {
  return smem + row * ROW_BYTES + ((col * ELEMENT_BYTES) ^ ((row & 7) * 16));
}
// Moves an address by `row` rows (a multiple of 8) and `col` columns (a multiple of 16 bytes, without a carry).
DEVICE uint32_t advance(uint32_t address, int row, int col) {
  return (address ^ (col * ELEMENT_BYTES)) + row * ROW_BYTES;
}

template <int TILE_ROWS>
DEVICE void load_tile(uint32_t smem, const Element* gmem, int64_t row_stride) {
  constexpr int CHUNK = 16 / ELEMENT_BYTES;          // elements per 16-byte access
  constexpr int PASS = THREADS / (BLOCK_K / CHUNK);  // rows that the block copies per pass
  static_assert(TILE_ROWS % PASS == 0);
  const int row = tid_x() / (BLOCK_K / CHUNK), col = tid_x() % (BLOCK_K / CHUNK) * CHUNK;
  gmem += row * row_stride + col;
#pragma unroll
  for (int i = 0; i < TILE_ROWS / PASS; ++i, gmem += PASS * row_stride)
    cp_async_cg_16(tile_address(smem, row + i * PASS, col), gmem);
}

KERNEL(THREADS, 1) l2_grid_order(const GemmArgs args) {
  const Tile tile = grouped_tile(args, ctaid_x());
  const uint32_t smem = shared_base();
  const uint32_t a_smem = smem + SharedMemory::a, b_smem = smem + SharedMemory::b;
  const int warp = shfl_idx(tid_x() / WARP_SIZE, 0), lane = tid_x() % WARP_SIZE;
  const int warp_row = warp / WARPS_N * M_TILES * MMA_M, warp_col = warp % WARPS_N * N_TILES * MMA_N;

  // The row address that this lane passes to ldmatrix for the first fragment of each operand, in the first buffer.
  const uint32_t a_first = tile_address(a_smem, warp_row + lane % 16, lane / 16 * 8);
  const uint32_t b_first = tile_address(b_smem, warp_col + lane % 8 + lane / 16 * 8, lane / 8 % 2 * 8);
  // In an mma fragment this lane holds rows group and group + 8, columns 2 * quad and 2 * quad + 1.
  const int group = lane / 4, quad = lane % 4;

  const int k_tiles = args.k / BLOCK_K;
  auto load = [&](int j) {
    if (j < k_tiles) {
      load_tile<BLOCK_M>(a_smem + j % STAGES * A_BYTES, a_at(args, tile.row, j * BLOCK_K), args.a_stride);
      load_tile<BLOCK_N>(b_smem + j % STAGES * B_BYTES, b_at(args, tile.col, j * BLOCK_K), args.b_stride);
    }
    cp_async_commit_group();
  };
  for (int j = 0; j < STAGES - 1; ++j) load(j);

  float c_regs[M_TILES][N_TILES][4] = {};
  for (int j = 0; j < k_tiles; ++j) {
    cp_async_wait_group<STAGES - 2>();
    bar_sync();  // tile j has arrived; every warp is done with tile j - 1
    load(j + STAGES - 1);
    const uint32_t a_lane = a_first + j % STAGES * A_BYTES, b_lane = b_first + j % STAGES * B_BYTES;

    // C += A B^T
#pragma unroll
    for (int k = 0; k < BLOCK_K; k += MMA_K) {
      uint32_t a_regs[M_TILES][4], b_regs[N_TILES / 2][4];
      for (int m = 0; m < M_TILES; ++m) ldmatrix_x4(a_regs[m], advance(a_lane, m * MMA_M, k));
      for (int n = 0; n < N_TILES; n += 2) ldmatrix_x4(b_regs[n / 2], advance(b_lane, n * MMA_N, k));
      for (int m = 0; m < M_TILES; ++m)
        for (int n = 0; n < N_TILES; ++n) mma_m16n8k16<Element>(c_regs[m][n], a_regs[m], b_regs[n / 2] + n % 2 * 2);
    }
  }

  // epilogue
#pragma unroll
  for (int m = 0; m < M_TILES; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = tile.row + warp_row + m * MMA_M + group + half * 8;
      for (int n = 0; n < N_TILES; ++n)
        store_pair(args, row, tile.col + warp_col + n * MMA_N + quad * 2, c_regs[m][n][half * 2],
                   c_regs[m][n][half * 2 + 1]);
    }
  }
}

}  // namespace

EXPORT int shared_memory_bytes() { return SharedMemory::bytes; }

EXPORT int launch(const GemmArgs* args, void* stream) {
  const Grid grid{tiles(*args), 1, 1};
  return launch_kernel<l2_grid_order>(grid, THREADS, SharedMemory::bytes, stream, *args);
}
