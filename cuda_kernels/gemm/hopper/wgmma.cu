// Warpgroup products: four warps multiply 64 rows of A by all columns of the tile, straight from shared memory.
// Builds on ampere/l2_grid_order; changes the instruction that multiplies, so that a warpgroup owns whole rows of C.
//
// Descriptors tell wgmma where A and B lie in shared memory; no fragment of them passes through registers. The XOR of
// the parent's layout is the 128-byte swizzle that wgmma knows, so copies stay as they are. wgmma reads shared memory
// through another proxy than cp.async writes it: between the wait for the copies and the barrier, a fence makes each
// thread's copies visible to that proxy. wgmma is asynchronous: while the products of a step run, a warpgroup waits for
// those of the step before. A second barrier then says that every warp is done with that step's buffer, which may be
// filled again. wgmma.fence orders the registers that ordinary instructions cleared before the products that add to
// them; register_fence keeps the compiler from moving such instructions past it. A warp has whole rows of C, which it
// stores in pieces of 16 bytes (row_stores.cuh).
#include <gemm/gemm.cuh>
#include <ptx/barrier.cuh>
#include <ptx/cp_async.cuh>
#include <ptx/fence.cuh>
#include <ptx/shfl.cuh>
#include <ptx/wgmma.cuh>
#include <gemm/row_stores.cuh>
#include <gemm/tile_order.cuh>
#include <gemm/warpgroup_tiles.cuh>

namespace {

constexpr int THREADS = WARPS * WARP_SIZE;
static_assert(STAGES >= 2, "the next tile is loaded while this one is multiplied");

struct SharedMemory {
  static constexpr int a = 0;
  static constexpr int b = a + STAGES * A_BYTES;
  static constexpr int bytes = b + STAGES * B_BYTES;
};

// Address of an element in a tile of A or B: its 16-byte column is XORed with the row.
DEVICE uint32_t tile_address(uint32_t smem, int row, int col) {
  return smem + row * ROW_BYTES + ((col * ELEMENT_BYTES) ^ ((row & 7) * 16));
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

KERNEL(THREADS, 1) wgmma(const GemmArgs args) {
  const Tile tile = grouped_tile(args, ctaid_x());
  const uint32_t smem = shared_base();
  const uint32_t a_smem = smem + SharedMemory::a, b_smem = smem + SharedMemory::b;
  const int warp = shfl_idx(tid_x() / WARP_SIZE, 0), lane = tid_x() % WARP_SIZE;
  const int group_row = warp / WARPGROUP_WARPS * M_TILES * WARPGROUP_ROWS;  // the warpgroup's first

  const int k_tiles = args.k / BLOCK_K;
  auto load = [&](int j) {
    if (j < k_tiles) {
      load_tile<BLOCK_M>(a_smem + j % STAGES * A_BYTES, a_at(args, tile.row, j * BLOCK_K), args.a_stride);
      load_tile<BLOCK_N>(b_smem + j % STAGES * B_BYTES, b_at(args, tile.col, j * BLOCK_K), args.b_stride);
    }
    cp_async_commit_group();
  };
  for (int j = 0; j < STAGES - 1; ++j) load(j);

  float c_regs[M_TILES][BLOCK_N / 2] = {};
#pragma unroll
  for (int m = 0; m < M_TILES; ++m) register_fence(c_regs[m]);
  for (int j = 0; j < k_tiles; ++j) {
    cp_async_wait_group<STAGES - 2>();
    fence_proxy_async_shared();  // wgmma sees what this thread's copies have written
    bar_sync();                  // tile j has arrived

    // C += A B^T
    const uint64_t a_operand = operand(a_smem + j % STAGES * A_BYTES, group_row);
    const uint64_t b_operand = operand(b_smem + j % STAGES * B_BYTES);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < BLOCK_K; k += MMA_K)
#pragma unroll
      for (int m = 0; m < M_TILES; ++m)
        wgmma_mma_async_ss<Element, BLOCK_N>(c_regs[m],
                                             a_operand + operand_columns(k) + operand_rows(m * WARPGROUP_ROWS),
                                             b_operand + operand_columns(k), 1);
    wgmma_commit_group();
    wgmma_wait_group<1>();
    bar_sync();  // every warpgroup is done with tile j - 1
    load(j + STAGES - 1);
  }
  wgmma_wait_group<0>();
#pragma unroll
  for (int m = 0; m < M_TILES; ++m) register_fence(c_regs[m]);

  // epilogue
#pragma unroll
  for (int m = 0; m < M_TILES; ++m)
    store_rows(args, tile.row + group_row + m * WARPGROUP_ROWS + warp % WARPGROUP_WARPS * 16, tile.col, c_regs[m]);
}

}  // namespace

EXPORT int shared_memory_bytes() { return SharedMemory::bytes; }

EXPORT int launch(const GemmArgs* args, void* stream) {
  const Grid grid{tiles(*args), 1, 1};
  return launch_kernel<wgmma>(grid, THREADS, SharedMemory::bytes, stream, *args);
}
