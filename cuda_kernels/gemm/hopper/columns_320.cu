// Tiles of 128 x 320, five quarters of the parent's: 5120 x 5120 has 640 of them, which fill 132 multiprocessors five
// times to 97%, where 800 of 128 x 256 fill them seven times to 87%. Each product reads fewer bytes from L2. Builds on
// square_waves; changes the tile. Supports any m, and any n and k that are multiples of 8.
//
// A wgmma has at most 256 columns: a step has two, of 192 and of 128, and each has sums of its own. A box of TMA has at
// most 256 rows: B of a step comes in two boxes of 160, which lie one behind the other in its buffer and complete on
// one barrier. Both products of a step belong to one group, so that one wait covers them before their buffer is
// released. wgmma.fence orders the registers of both. All else is as in square_waves.
#include <gemm/gemm.cuh>
#include <ptx/barrier.cuh>
#include <ptx/fence.cuh>
#include <ptx/mbarrier.cuh>
#include <ptx/setmaxnreg.cuh>
#include <ptx/shfl.cuh>
#include <ptx/tma.cuh>
#include <ptx/vote.cuh>
#include <ptx/wgmma.cuh>
#include <gemm/c_staging.cuh>
#include <gemm/persistent_tiles.cuh>
#include <gemm/warpgroup_tiles.cuh>

namespace {

constexpr int THREADS = WARPS * WARP_SIZE + WARPGROUP;  // plus the producer warpgroup
// setmaxnreg moves registers of the launch (at most 65536) from the producer to one or two consumer warpgroups.
constexpr int PRODUCER_REGISTERS = WARPS == 4 ? 56 : 24, CONSUMER_REGISTERS = WARPS == 4 ? 256 : 240;
static_assert(WARPS == 4 || WARPS == 8);
static_assert(STAGES >= 2, "the next tile is loaded while this one is multiplied");
constexpr int GROUP_ROWS = 2048;           // of C
constexpr int LEFT = 192, RIGHT = 128;     // columns of a step's products
constexpr int B_BOX = (LEFT + RIGHT) / 2;  // rows of B
static_assert(BLOCK_N == LEFT + RIGHT && M_TILES == 1);

struct SharedMemory {
  static constexpr int a = 0;
  static constexpr int b = a + STAGES * A_BYTES;
  static constexpr int c = b + STAGES * B_BYTES;
  static constexpr int full = c + WARPS * C_BUFFERS * C_BYTES;
  static constexpr int empty = full + STAGES * 8;
  static constexpr int bytes = empty + STAGES * 8;
};

KERNEL(THREADS, 1) columns_320(GRID_CONSTANT const StagedParams params) {
  const auto& [tma, tiles, blocks] = params.persistent;
  const GemmArgs& args = tma.args;
  const uint32_t smem = shared_base();
  const uint32_t a_smem = smem + SharedMemory::a, b_smem = smem + SharedMemory::b, full = smem + SharedMemory::full;
  const uint32_t empty = smem + SharedMemory::empty;
  const int warp = shfl_idx(tid_x() / WARP_SIZE, 0), lane = tid_x() % WARP_SIZE;
  const int group_row = warp / WARPGROUP_WARPS * M_TILES * WARPGROUP_ROWS;  // the warpgroup's first
  const int warp_row = group_row + warp % WARPGROUP_WARPS * C_ROWS;
  const uint32_t c_smem = smem + SharedMemory::c + warp * C_BUFFERS * C_BYTES;  // this warp's buffers

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
      for (int number = ctaid_x(); number < tiles; number += blocks) {
        const Tile tile = grouped_tile<BLOCK_M, BLOCK_N, GROUP_ROWS / BLOCK_M>(args, number);
        for (int j = 0; j < k_tiles; ++j, ring.advance()) {
          const uint32_t a = a_smem + ring.stage * A_BYTES, b = b_smem + ring.stage * B_BYTES;
          const uint32_t arrived = full + ring.stage * 8;
          wait(empty + ring.stage * 8, ring.phase ^ 1);  // passes immediately in the first round
          mbarrier_arrive_expect_tx(arrived, A_BYTES + B_BYTES);
          cp_async_bulk_tensor_load<2>(a, tma.a, {j * BLOCK_K, tile.row}, arrived);
          cp_async_bulk_tensor_load<2>(b, tma.b, {j * BLOCK_K, tile.col}, arrived);
          cp_async_bulk_tensor_load<2>(b + B_BOX * ROW_BYTES, tma.b, {j * BLOCK_K, tile.col + B_BOX}, arrived);
        }
      }
    }
    return;
  }
  setmaxnreg_inc<CONSUMER_REGISTERS>();

  Ring ring;
  int buffer = 0;
  for (int number = ctaid_x(); number < tiles; number += blocks) {
    const Tile tile = grouped_tile<BLOCK_M, BLOCK_N, GROUP_ROWS / BLOCK_M>(args, number);
    float left[LEFT / 2] = {}, right[RIGHT / 2] = {};
    for (int j = 0; j < k_tiles; ++j, ring.advance()) {
      wait(full + ring.stage * 8, ring.phase);

      // C += A B^T
      const uint64_t a_operand = operand(a_smem + ring.stage * A_BYTES, group_row);
      const uint64_t b_operand = operand(b_smem + ring.stage * B_BYTES);
      register_fence(left), register_fence(right);
      wgmma_fence();
#pragma unroll
      for (int k = 0; k < BLOCK_K; k += MMA_K) {
        const uint64_t a = a_operand + operand_columns(k), b = b_operand + operand_columns(k);
        wgmma_mma_async_ss<Element, LEFT>(left, a, b, 1);
        wgmma_mma_async_ss<Element, RIGHT>(right, a, b + operand_rows(LEFT), 1);
      }
      wgmma_commit_group();
      wgmma_wait_group<0>();
      register_fence(left), register_fence(right);
      if (lane == 0) mbarrier_arrive(empty + ring.stage * 8);
    }

    // epilogue
    auto store = [&](const auto& sums, int n, int col) {
      const uint32_t staged = c_smem + buffer * C_BYTES;
      if (lane == 0) cp_async_bulk_wait_group_read<C_BUFFERS - 1>();
      bar_warp_sync();  // the buffer may be written
      stage_c(staged, args, sums, n, col);
      fence_proxy_async_shared();
      bar_warp_sync();  // the buffer is complete
      if (lane == 0) {
        cp_async_bulk_tensor_store<2>(params.c, {col + n, tile.row + warp_row}, staged);
        cp_async_bulk_commit_group();
      }
      buffer = buffer + 1 == C_BUFFERS ? 0 : buffer + 1;
    };
#pragma unroll
    for (int n = 0; n < LEFT; n += C_COLUMNS) store(left, n, tile.col);
#pragma unroll
    for (int n = 0; n < RIGHT; n += C_COLUMNS) store(right, n, tile.col + LEFT);
  }
  if (lane == 0) cp_async_bulk_wait_group_read<0>();  // shared memory outlives its stores
}

}  // namespace

EXPORT int shared_memory_bytes() { return SharedMemory::bytes; }

EXPORT int launch(const GemmArgs* args, void* stream) {
  StagedParams params{{{*args}}};
  auto& [tma, count, blocks] = params.persistent;
  if (const Error error = most_blocks(blocks)) return error;
  count = tiles(*args);
  if (count < blocks) blocks = count;
  if (const Error error = encode<B_BOX>(tma)) return error;
  level_waves(params.persistent);
  if (const Error error = encode(params.c, *args)) return error;
  const Grid grid{params.persistent.blocks, 1, 1};
  return launch_kernel<columns_320>(grid, THREADS, SharedMemory::bytes, stream, params);
}
