// A ring of buffers with full and empty mbarriers: no barrier of the block in the main loop.
// Builds on tma_swizzle; changes how a buffer is released. Supports any m, and any n and k that are multiples of 8.
//
// `full` counts bytes, `empty` counts the warps that are done with a buffer: each arrives once the products that read
// it are complete, while those of the next step run. The elected thread waits for all of them before it fills the
// buffer again. Other warps do not: they may be up to STAGES - 1 tiles ahead of the slowest. What wgmma has read needs
// no fence before TMA overwrites it: both use the same proxy, and the wait for the products comes before the arrival.
#include <gemm/gemm.cuh>
#include <ptx/barrier.cuh>
#include <ptx/fence.cuh>
#include <ptx/mbarrier.cuh>
#include <ptx/shfl.cuh>
#include <ptx/tma.cuh>
#include <ptx/vote.cuh>
#include <ptx/wgmma.cuh>
#include <gemm/row_stores.cuh>
#include <gemm/tile_order.cuh>
#include <gemm/tma_params.cuh>
#include <gemm/warpgroup_tiles.cuh>

namespace {

constexpr int THREADS = WARPS * WARP_SIZE;
static_assert(STAGES >= 2, "the next tile is loaded while this one is multiplied");

struct SharedMemory {
  static constexpr int a = 0;
  static constexpr int b = a + STAGES * A_BYTES;
  static constexpr int full = b + STAGES * B_BYTES;
  static constexpr int empty = full + STAGES * 8;
  static constexpr int bytes = empty + STAGES * 8;
};

KERNEL(THREADS, 1) mbarrier_ring(GRID_CONSTANT const TmaParams params) {
  const GemmArgs& args = params.args;
  const Tile tile = grouped_tile(args, ctaid_x());
  const uint32_t smem = shared_base();
  const uint32_t a_smem = smem + SharedMemory::a, b_smem = smem + SharedMemory::b, full = smem + SharedMemory::full;
  const uint32_t empty = smem + SharedMemory::empty;
  const int warp = shfl_idx(tid_x() / WARP_SIZE, 0), lane = tid_x() % WARP_SIZE;
  const int group_row = warp / WARPGROUP_WARPS * M_TILES * WARPGROUP_ROWS;  // the warpgroup's first

  if (tid_x() == 0) {
    for (int stage = 0; stage < STAGES; ++stage)
      mbarrier_init(full + stage * 8, 1), mbarrier_init(empty + stage * 8, WARPS);
    fence_mbarrier_init();  // TMA sees the initialized barriers ...
  }
  bar_sync();  // ... and so does every thread

  const int k_tiles = ceil_div(args.k, BLOCK_K);
  auto load = [&](int j) {
    const int stage = j % STAGES;
    mbarrier_arrive_expect_tx(full + stage * 8, A_BYTES + B_BYTES);
    cp_async_bulk_tensor_load<2>(a_smem + stage * A_BYTES, params.a, {j * BLOCK_K, tile.row}, full + stage * 8);
    cp_async_bulk_tensor_load<2>(b_smem + stage * B_BYTES, params.b, {j * BLOCK_K, tile.col}, full + stage * 8);
  };
  if (warp == 0 && elect_sync())
    for (int j = 0; j < STAGES - 1 && j < k_tiles; ++j) load(j);

  float c_regs[M_TILES][BLOCK_N / 2] = {};
#pragma unroll
  for (int m = 0; m < M_TILES; ++m) register_fence(c_regs[m]);
  Ring ring;
  for (int j = 0; j < k_tiles; ++j, ring.advance()) {
    wait(full + ring.stage * 8, ring.phase);

    // C += A B^T
    const uint64_t a_operand = operand(a_smem + ring.stage * A_BYTES, group_row);
    const uint64_t b_operand = operand(b_smem + ring.stage * B_BYTES);
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
    if (j > 0 && lane == 0) mbarrier_arrive(empty + (j - 1) % STAGES * 8);
    if (warp == 0 && j + STAGES - 1 < k_tiles && elect_sync()) {
      const int next = j + STAGES - 1;                                    // takes the buffer of tile j - 1
      if (j > 0) wait(empty + next % STAGES * 8, next / STAGES % 2 ^ 1);  // until every warp is done with that
      load(next);
    }
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
  TmaParams params{*args};
  if (const Error error = encode(params)) return error;
  const Grid grid{tiles(*args), 1, 1};
  return launch_kernel<mbarrier_ring>(grid, THREADS, SharedMemory::bytes, stream, params);
}
