// Evict first: few rows read B once, and L2 is told to drop it before anything else. Builds on producer_consumer;
// changes a hint of its loads. Supports any m, and any n and k that are multiples of 8.
//
// Where C has one row of tiles, or few that run at the same time, no block reads an element of B that another one has
// read long before. Without a hint B pushes out of L2 what earlier kernels left there, and L2 first writes to DRAM what
// they wrote: up to the whole cache, beside a B of twice its size. With the hint B replaces itself. A is small, and is
// read by every block.
#include <gemm/gemm.cuh>
#include <ptx/barrier.cuh>
#include <ptx/createpolicy.cuh>
#include <ptx/fence.cuh>
#include <ptx/mbarrier.cuh>
#include <ptx/setmaxnreg.cuh>
#include <ptx/shfl.cuh>
#include <ptx/tma.cuh>
#include <ptx/vote.cuh>
#include <ptx/wgmma.cuh>
#include <gemm/row_stores.cuh>
#include <gemm/tile_order.cuh>
#include <gemm/tma_params.cuh>
#include <gemm/warpgroup_tiles.cuh>

namespace {

constexpr int THREADS = WARPS * WARP_SIZE + WARPGROUP;  // plus the producer warpgroup
// setmaxnreg moves registers of the launch (at most 65536) from the producer to one or two consumer warpgroups.
constexpr int PRODUCER_REGISTERS = WARPS == 4 ? 56 : 24, CONSUMER_REGISTERS = WARPS == 4 ? 256 : 240;
static_assert(WARPS == 4 || WARPS == 8);
static_assert(STAGES >= 2, "the next tile is loaded while this one is multiplied");

struct SharedMemory {
  static constexpr int a = 0;
  static constexpr int b = a + STAGES * A_BYTES;
  static constexpr int full = b + STAGES * B_BYTES;
  static constexpr int empty = full + STAGES * 8;
  static constexpr int bytes = empty + STAGES * 8;
};

KERNEL(THREADS, 1) evict_first(GRID_CONSTANT const TmaParams params) {
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

  // producer: load every tile as soon as its buffer is empty
  if (warp >= WARPS) {
    setmaxnreg_dec<PRODUCER_REGISTERS>();
    if (warp == WARPS && elect_sync()) {
      const uint64_t read_once = createpolicy_evict_first();
      Ring ring;
      for (int j = 0; j < k_tiles; ++j, ring.advance()) {
        const uint32_t a = a_smem + ring.stage * A_BYTES, b = b_smem + ring.stage * B_BYTES;
        const uint32_t arrived = full + ring.stage * 8;
        wait(empty + ring.stage * 8, ring.phase ^ 1);  // passes immediately in the first round
        mbarrier_arrive_expect_tx(arrived, A_BYTES + B_BYTES);
        cp_async_bulk_tensor_load<2>(a, params.a, {j * BLOCK_K, tile.row}, arrived);
        cp_async_bulk_tensor_load_cache_hint<2>(b, params.b, {j * BLOCK_K, tile.col}, arrived, read_once);
      }
    }
    return;
  }
  setmaxnreg_inc<CONSUMER_REGISTERS>();

  float c_regs[M_TILES][BLOCK_N / 2] = {};
#pragma unroll
  for (int m = 0; m < M_TILES; ++m) register_fence(c_regs[m]);
  Ring ring, done;  // done: the buffer whose products the next wait completes
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
    if (j == 0) continue;
    if (lane == 0) mbarrier_arrive(empty + done.stage * 8);
    done.advance();
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
  return launch_kernel<evict_first>(grid, THREADS, SharedMemory::bytes, stream, params);
}
