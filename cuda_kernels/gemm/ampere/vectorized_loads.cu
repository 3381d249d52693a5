// 16-byte accesses to global and to shared memory.
// Builds on register_tiled; changes the width of accesses, and the layout that makes them possible.
//
// A copy moves eight elements of a row with one instruction. They are converted to fp32 once, on their way, instead of
// at each use, and stored transposed: what a thread needs for one k then lies side by side, four rows in one 16-byte
// load. So a thread has two times four adjacent rows of C and as many columns. Rows are four floats longer than the
// tile, to keep them aligned and to spread the transposed stores over the banks. Barriers are those of register_tiled.
#include <gemm/gemm.cuh>
#include <ptx/barrier.cuh>

namespace {

constexpr int THREADS = WARPS * WARP_SIZE;
constexpr int ROWS = 8, COLS = 8;                                      // elements of C per thread
constexpr int THREADS_X = BLOCK_N / COLS, THREADS_Y = BLOCK_M / ROWS;  // the block's threads as a grid
static_assert(THREADS_X * THREADS_Y == THREADS && BLOCK_M % ROWS == 0 && BLOCK_N % COLS == 0);
static_assert(STAGES == 1, "one buffer for A, one for B");

constexpr int A_ROW_BYTES = (BLOCK_M + 4) * 4, B_ROW_BYTES = (BLOCK_N + 4) * 4;

// Transposed: a row has one k of all rows of the tile.
struct SharedMemory {
  static constexpr int a = 0;
  static constexpr int b = a + BLOCK_K * A_ROW_BYTES;
  static constexpr int bytes = b + BLOCK_K * B_ROW_BYTES;
};

template <int TILE_ROWS, int ROW_BYTES>
DEVICE void load_tile(uint32_t smem, const Element* gmem, int64_t row_stride) {
  constexpr int CHUNK = 16 / ELEMENT_BYTES;          // elements per 16-byte access
  constexpr int PASS = THREADS / (BLOCK_K / CHUNK);  // rows that the block copies per pass
  static_assert(TILE_ROWS % PASS == 0);
  const int row = tid_x() / (BLOCK_K / CHUNK), col = tid_x() % (BLOCK_K / CHUNK) * CHUNK;
  gmem += row * row_stride + col;
#pragma unroll
  for (int i = 0; i < TILE_ROWS / PASS; ++i, gmem += PASS * row_stride) {
    struct alignas(16) Chunk {
      Element x[CHUNK];
    };
    const auto chunk = ld_global<Chunk>(gmem);
    for (int k = 0; k < CHUNK; ++k) st_shared(smem + (col + k) * ROW_BYTES + (row + i * PASS) * 4, cvt_f32(chunk.x[k]));
  }
}

// Rows 4 * `thread` and the three behind it of each half of a tile, for one k.
template <int TILE_ROWS>
DEVICE void load_factors(float (&regs)[8], uint32_t row_smem, int thread) {
  for (int half = 0; half < 2; ++half) {
    const float4 four = ld_shared<float4>(row_smem + (half * TILE_ROWS / 2 + thread * 4) * 4);
    regs[half * 4] = four.x, regs[half * 4 + 1] = four.y, regs[half * 4 + 2] = four.z, regs[half * 4 + 3] = four.w;
  }
}

KERNEL(THREADS, 1) vectorized_loads(const GemmArgs args) {
  const int tiles_n = args.n / BLOCK_N;
  const int block_row = ctaid_x() / tiles_n * BLOCK_M, block_col = ctaid_x() % tiles_n * BLOCK_N;
  const uint32_t smem = shared_base();
  const uint32_t a_smem = smem + SharedMemory::a, b_smem = smem + SharedMemory::b;
  const int ty = tid_x() / THREADS_X, tx = tid_x() % THREADS_X;

  float c_regs[ROWS][COLS] = {};
  for (int k_start = 0; k_start < args.k; k_start += BLOCK_K) {
    bar_sync();  // every warp is done with the previous tiles
    load_tile<BLOCK_M, A_ROW_BYTES>(a_smem, a_at(args, block_row, k_start), args.a_stride);
    load_tile<BLOCK_N, B_ROW_BYTES>(b_smem, b_at(args, block_col, k_start), args.b_stride);
    bar_sync();  // both tiles are in shared memory

    // C += A B^T
#pragma unroll
    for (int k = 0; k < BLOCK_K; ++k) {
      float a_regs[ROWS], b_regs[COLS];
      load_factors<BLOCK_M>(a_regs, a_smem + k * A_ROW_BYTES, ty);
      load_factors<BLOCK_N>(b_regs, b_smem + k * B_ROW_BYTES, tx);
      for (int i = 0; i < ROWS; ++i)
        for (int c = 0; c < COLS; ++c) c_regs[i][c] += a_regs[i] * b_regs[c];
    }
  }

  // epilogue
  for (int i = 0; i < ROWS; ++i) {
    for (int c = 0; c < COLS; c += 2) {
      const int row = i / 4 * BLOCK_M / 2 + ty * 4 + i % 4, col = c / 4 * BLOCK_N / 2 + tx * 4 + c % 4;
      store_pair(args, block_row + row, block_col + col, c_regs[i][c], c_regs[i][c + 1]);
    }
  }
}

}  // namespace

EXPORT int shared_memory_bytes() { return SharedMemory::bytes; }

EXPORT int launch(const GemmArgs* args, void* stream) {
  const Grid grid{args->m / BLOCK_M * (args->n / BLOCK_N), 1, 1};
  return launch_kernel<vectorized_loads>(grid, THREADS, SharedMemory::bytes, stream, *args);
}
