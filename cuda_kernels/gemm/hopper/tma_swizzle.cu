// Tiles come by TMA: one thread asks for a whole box, and hardware computes addresses and permutes columns.
// Builds on wgmma; changes who copies and how a tile's arrival is signalled. Supports any m, and any n and k that are
// multiples of 8: a box that reaches past a matrix reads zeros, and columns of C past its end are not written.
//
// An elected thread of the first warp issues two copies for a tile of A and B, and tells the buffer's mbarrier `full`
// how many bytes they have. All threads wait for these bytes. TMA and wgmma use the same proxy, so that no fence is
// needed between them. A barrier of the block still says that all warpgroups are done with a buffer. The barriers'
// initialization needs a fence of its own: TMA must see it.
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
  static constexpr int bytes = full + STAGES * 8;
};

KERNEL(THREADS, 1) tma_swizzle(GRID_CONSTANT const TmaParams params) {
  const GemmArgs& args = params.args;
  const Tile tile = grouped_tile(args, ctaid_x());
  const uint32_t smem = shared_base();
  const uint32_t a_smem = smem + SharedMemory::a, b_smem = smem + SharedMemory::b, full = smem + SharedMemory::full;
  const int warp = shfl_idx(tid_x() / WARP_SIZE, 0), lane = tid_x() % WARP_SIZE;
  const int group_row = warp / WARPGROUP_WARPS * M_TILES * WARPGROUP_ROWS;  // the warpgroup's first

  if (tid_x() == 0) {
    for (int stage = 0; stage < STAGES; ++stage) mbarrier_init(full + stage * 8, 1);
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
    bar_sync();  // every warpgroup is done with tile j - 1
    if (warp == 0 && j + STAGES - 1 < k_tiles && elect_sync()) load(j + STAGES - 1);
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
  return launch_kernel<tma_swizzle>(grid, THREADS, SharedMemory::bytes, stream, params);
}
