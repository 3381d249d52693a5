// Two consumer warpgroups, and a tile of 128 x 256: each multiplies 64 rows by all 256 columns with one wgmma.
// Builds on producer_consumer; changes the tile and the number of consumers (BLOCK_N, STAGES and WARPS), and which
// products a consumer waits for. Supports any m, and any n and k that are multiples of 8.
//
// Each consumer waits for its own products of a step before it goes on. The other one's run meanwhile, so neither needs
// a second step in flight, and a buffer is released as soon as its products are complete. Fences are those of
// producer_consumer.
#include <gemm/gemm.cuh>
#include <ptx/barrier.cuh>
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

KERNEL(THREADS, 1) two_consumers(GRID_CONSTANT const TmaParams params) {
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
      Ring ring;
      for (int j = 0; j < k_tiles; ++j, ring.advance()) {
        const uint32_t a = a_smem + ring.stage * A_BYTES, b = b_smem + ring.stage * B_BYTES;
        const uint32_t arrived = full + ring.stage * 8;
        wait(empty + ring.stage * 8, ring.phase ^ 1);  // passes immediately in the first round
        mbarrier_arrive_expect_tx(arrived, A_BYTES + B_BYTES);
        cp_async_bulk_tensor_load<2>(a, params.a, {j * BLOCK_K, tile.row}, arrived);
        cp_async_bulk_tensor_load<2>(b, params.b, {j * BLOCK_K, tile.col}, arrived);
      }
    }
    return;
  }
  setmaxnreg_inc<CONSUMER_REGISTERS>();

  float c_regs[M_TILES][BLOCK_N / 2] = {};
  Ring ring;
  for (int j = 0; j < k_tiles; ++j, ring.advance()) {
    wait(full + ring.stage * 8, ring.phase);

    // C += A B^T
    const uint64_t a_operand = operand(a_smem + ring.stage * A_BYTES, group_row);
    const uint64_t b_operand = operand(b_smem + ring.stage * B_BYTES);
#pragma unroll
    for (int m = 0; m < M_TILES; ++m) register_fence(c_regs[m]);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < BLOCK_K; k += MMA_K)
#pragma unroll
      for (int m = 0; m < M_TILES; ++m)
        wgmma_mma_async_ss<Element, BLOCK_N>(c_regs[m],
                                             a_operand + operand_columns(k) + operand_rows(m * WARPGROUP_ROWS),
                                             b_operand + operand_columns(k), 1);
    wgmma_commit_group();
    wgmma_wait_group<0>();
#pragma unroll
    for (int m = 0; m < M_TILES; ++m) register_fence(c_regs[m]);
    if (lane == 0) mbarrier_arrive(empty + ring.stage * 8);
  }

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
  return launch_kernel<two_consumers>(grid, THREADS, SharedMemory::bytes, stream, params);
}
