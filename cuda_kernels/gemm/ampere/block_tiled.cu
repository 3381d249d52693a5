// Blocks share what they read: tiles of A and B pass through shared memory.
// Builds on scalar; changes where a thread reads its factors.
//
// In each iteration the block copies BLOCK_K columns of its rows of A and of B to shared memory, so that an element is
// read from global memory once for all BLOCK_M or BLOCK_N threads that need it. Neighbouring threads copy neighbouring
// elements of a row. Rows are two elements longer than BLOCK_K: an odd number of 4-byte words, so that the columns of a
// warp, which are rows of B, lie in different banks. A barrier after the copies shows them to all threads, and one
// before them keeps the tiles before from being overwritten while a thread still reads them.
#include <gemm/gemm.cuh>
#include <ptx/barrier.cuh>

namespace {

constexpr int THREADS = WARPS * WARP_SIZE;
static_assert(BLOCK_M * BLOCK_N == THREADS, "a thread has one element of C");
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

KERNEL(THREADS, 1) block_tiled(const GemmArgs args) {
  const int tiles_n = args.n / BLOCK_N;
  const int block_row = ctaid_x() / tiles_n * BLOCK_M, block_col = ctaid_x() % tiles_n * BLOCK_N;
  const uint32_t smem = shared_base();
  const uint32_t a_smem = smem + SharedMemory::a, b_smem = smem + SharedMemory::b;
  const int row = tid_x() / BLOCK_N, col = tid_x() % BLOCK_N;

  float sum = 0.f;
  for (int k_start = 0; k_start < args.k; k_start += BLOCK_K) {
    bar_sync();  // every warp is done with the previous tiles
    load_tile<BLOCK_M>(a_smem, a_at(args, block_row, k_start), args.a_stride);
    load_tile<BLOCK_N>(b_smem, b_at(args, block_col, k_start), args.b_stride);
    bar_sync();  // both tiles are in shared memory

    // C += A B^T
    for (int k = 0; k < BLOCK_K; ++k)
      sum += cvt_f32(ld_shared<Element>(tile_address(a_smem, row, k))) *
             cvt_f32(ld_shared<Element>(tile_address(b_smem, col, k)));
  }

  // epilogue
  store(args, block_row + row, block_col + col, sum);
}

}  // namespace

EXPORT int shared_memory_bytes() { return SharedMemory::bytes; }

EXPORT int launch(const GemmArgs* args, void* stream) {
  const Grid grid{args->m / BLOCK_M * (args->n / BLOCK_N), 1, 1};
  return launch_kernel<block_tiled>(grid, THREADS, SharedMemory::bytes, stream, *args);
}
