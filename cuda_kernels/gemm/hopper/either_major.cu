// m may be contiguous in A, and n in B: nothing is copied, TMA and wgmma take both as they lie. Builds on persistent;
// changes the boxes that TMA loads and how wgmma reads them. Supports n and k that are multiples of 8; m must be one
// too where it is contiguous.
//
// A row of the swizzle's pattern has 128 bytes, here 64 elements of m or n. So a tile is several boxes of 64 elements
// by the BLOCK_K rows of k; each is a load of its own, and all arrive at one barrier. A bit of wgmma for each operand
// transposes it. The descriptor's strides then lead to the next 8 rows of k and to the next box, and a step of 16 in k
// moves it by 16 rows instead of 32 bytes. Fences and waits are those of persistent.
#include <gemm/gemm.cuh>
#include <ptx/barrier.cuh>
#include <ptx/fence.cuh>
#include <ptx/mbarrier.cuh>
#include <ptx/setmaxnreg.cuh>
#include <ptx/shfl.cuh>
#include <ptx/tma.cuh>
#include <ptx/vote.cuh>
#include <ptx/wgmma_transposed.cuh>
#include <gemm/majors.cuh>
#include <gemm/row_stores.cuh>
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

KERNEL(THREADS, 1) either_major(GRID_CONSTANT const PersistentParams params) {
  const GemmArgs& args = params.tma.args;
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
      for (int number = ctaid_x(); number < params.tiles; number += params.blocks) {
        const Tile tile = grouped_tile(args, number);
        for (int j = 0; j < k_tiles; ++j, ring.advance()) {
          const uint32_t a = a_smem + ring.stage * A_BYTES, b = b_smem + ring.stage * B_BYTES;
          const uint32_t arrived = full + ring.stage * 8;
          wait(empty + ring.stage * 8, ring.phase ^ 1);  // passes immediately in the first round
          mbarrier_arrive_expect_tx(arrived, A_BYTES + B_BYTES);
          if constexpr (M_CONTIGUOUS)
            for (int m = 0; m < BLOCK_M; m += BOX)
              cp_async_bulk_tensor_load<2>(a + m * ROW_BYTES, params.tma.a, {tile.row + m, j * BLOCK_K}, arrived);
          else
            cp_async_bulk_tensor_load<2>(a, params.tma.a, {j * BLOCK_K, tile.row}, arrived);
          if constexpr (N_CONTIGUOUS)
            for (int n = 0; n < BLOCK_N; n += BOX)
              cp_async_bulk_tensor_load<2>(b + n * ROW_BYTES, params.tma.b, {tile.col + n, j * BLOCK_K}, arrived);
          else
            cp_async_bulk_tensor_load<2>(b, params.tma.b, {j * BLOCK_K, tile.col}, arrived);
        }
      }
    }
    return;
  }
  setmaxnreg_inc<CONSUMER_REGISTERS>();

  Ring ring;
  for (int number = ctaid_x(); number < params.tiles; number += params.blocks) {
    const Tile tile = grouped_tile(args, number);
    float c_regs[M_TILES][BLOCK_N / 2] = {};
    for (int j = 0; j < k_tiles; ++j, ring.advance()) {
      wait(full + ring.stage * 8, ring.phase);

      // C += A B^T
      const uint64_t a_operand = major_operand(a_smem + ring.stage * A_BYTES, group_row);
      const uint64_t b_operand = major_operand(b_smem + ring.stage * B_BYTES);
#pragma unroll
      for (int m = 0; m < M_TILES; ++m) register_fence(c_regs[m]);
      wgmma_fence();
#pragma unroll
      for (int k = 0; k < BLOCK_K; k += MMA_K)
#pragma unroll
        for (int m = 0; m < M_TILES; ++m)
          wgmma_mma_async_ss_transposed<Element, BLOCK_N, M_CONTIGUOUS, N_CONTIGUOUS>(
              c_regs[m], a_operand + major_columns<M_CONTIGUOUS>(k) + operand_rows(m * WARPGROUP_ROWS),
              b_operand + major_columns<N_CONTIGUOUS>(k), 1);
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
}

}  // namespace

EXPORT int shared_memory_bytes() { return SharedMemory::bytes; }

EXPORT int launch(const GemmArgs* args, void* stream) {
  PersistentParams params{{*args}};
  if (const Error error = prepare_majors(params)) return error;
  const Grid grid{params.blocks, 1, 1};
  return launch_kernel<either_major>(grid, THREADS, SharedMemory::bytes, stream, params);
}
