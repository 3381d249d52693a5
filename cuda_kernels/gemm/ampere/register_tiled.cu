// Threads share what they read: each has 8 x 8 elements of C and keeps 16 factors in registers.
// Builds on block_tiled; changes what a thread computes, and the tile.
//
// For each k a thread reads 8 elements of A and 8 of B from shared memory and does 64 multiply-adds with them, where
// the parent reads two for each. Its rows of C are THREADS_Y apart and its columns THREADS_X, so that neighbouring
// threads read neighbouring rows of B. Data moves as in block_tiled, behind the same barriers.
#include <gemm/gemm.cuh>
#include <ptx/barrier.cuh>

namespace {

constexpr int THREADS = WARPS * WARP_SIZE;
constexpr int ROWS = 8, COLS = 8;                                      // elements of C per thread
constexpr int THREADS_X = BLOCK_N / COLS, THREADS_Y = BLOCK_M / ROWS;  // the block's threads as a grid
static_assert(THREADS_X * THREADS_Y == THREADS && BLOCK_M % ROWS == 0 && BLOCK_N % COLS == 0);
static_assert(STAGES == 1, "one buffer for A, one for B");

constexpr int ROW_BYTES = (BLOCK_K + 2) * ELEMENT_BYTES;
static_assert(ROW_BYTES / 4 % 2 == 1);

struct SharedMemory {
  static constexpr int a = 0;
  static constexpr int b = a + BLOCK_M * ROW_BYTES;
  static constexpr int bytes = b + BLOCK_N * ROW_BYTES;
};

DEVICE uint32_t tile_address(uint32_t smem, int row, int col) { return smem + row * ROW_BYTES + col * ELEMENT_BYTES; }

template <int TILE_ROWS>
DEVICE void load_tile(uint32_t smem, const Element* gmem, int64_t row_stride) {
  static_assert(TILE_ROWS * BLOCK_K % THREADS == 0);
#pragma unroll
  for (int i = tid_x(); i < TILE_ROWS * BLOCK_K; i += THREADS) {
    const int row = i / BLOCK_K, col = i % BLOCK_K;
    st_shared(tile_address(smem, row, col), ld_global<Element>(gmem + row * row_stride + col));
  }
}

KERNEL(THREADS, 1) register_tiled(const GemmArgs args) {
  const int tiles_n = args.n / BLOCK_N;
  const int block_row = ctaid_x() / tiles_n * BLOCK_M, block_col = ctaid_x() % tiles_n * BLOCK_N;
  const uint32_t smem = shared_base();
  const uint32_t a_smem = smem + SharedMemory::a, b_smem = smem + SharedMemory::b;
  const int ty = tid_x() / THREADS_X, tx = tid_x() % THREADS_X;

  float c_regs[ROWS][COLS] = {};
  for (int k_start = 0; k_start < args.k; k_start += BLOCK_K) {
    bar_sync();  // every warp is done with the previous tiles
    load_tile<BLOCK_M>(a_smem, a_at(args, block_row, k_start), args.a_stride);
    load_tile<BLOCK_N>(b_smem, b_at(args, block_col, k_start), args.b_stride);
    bar_sync();  // both tiles are in shared memory

    // C += A B^T
#pragma unroll
    for (int k = 0; k < BLOCK_K; ++k) {
      float a_regs[ROWS], b_regs[COLS];
      for (int i = 0; i < ROWS; ++i)
        a_regs[i] = cvt_f32(ld_shared<Element>(tile_address(a_smem, ty + i * THREADS_Y, k)));
      for (int c = 0; c < COLS; ++c)
        b_regs[c] = cvt_f32(ld_shared<Element>(tile_address(b_smem, tx + c * THREADS_X, k)));
      for (int i = 0; i < ROWS; ++i)
        for (int c = 0; c < COLS; ++c) c_regs[i][c] += a_regs[i] * b_regs[c];
    }
  }

  // epilogue
  for (int i = 0; i < ROWS; ++i)
    for (int c = 0; c < COLS; ++c)
      store(args, block_row + ty + i * THREADS_Y, block_col + tx + c * THREADS_X, c_regs[i][c]);
}

}  // namespace

EXPORT int shared_memory_bytes() { return SharedMemory::bytes; }

EXPORT int launch(const GemmArgs* args, void* stream) {
  const Grid grid{args->m / BLOCK_M * (args->n / BLOCK_N), 1, 1};
  return launch_kernel<register_tiled>(grid, THREADS, SharedMemory::bytes, stream, *args);
}
