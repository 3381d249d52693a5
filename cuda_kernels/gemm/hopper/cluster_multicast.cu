// Two blocks of a cluster share B: each loads half of its rows, which multicast delivers to both. Builds on
// tma_store_epilogue; pairs tiles that lie below each other. Supports any m, and any n and k that are multiples of 8.
//
// Both blocks need the same columns, and L2 delivers each of them once instead of twice. Both producers write to every
// buffer of B, so each waits until the consumer warps of both blocks have released it; a full barrier counts the bytes
// of both halves. With an odd number of rows of tiles, one block's tile starts past the last row of C: it loads its
// half, multiplies zeros and stores nothing. No block exits before the other one is done, whose loads and arrivals
// still reach its shared memory.
#include <gemm/gemm.cuh>
#include <ptx/barrier.cuh>
#include <ptx/cluster_relaxed.cuh>
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
constexpr int CLUSTER = 2;  // blocks
constexpr int B_SHARE = BLOCK_N / CLUSTER;
static_assert(B_SHARE % 8 == 0, "the swizzle pattern of 8 rows starts at each share");

struct SharedMemory {
  static constexpr int a = 0;
  static constexpr int b = a + STAGES * A_BYTES;
  static constexpr int c = b + STAGES * B_BYTES;
  static constexpr int full = c + WARPS * C_BUFFERS * C_BYTES;
  static constexpr int empty = full + STAGES * 8;
  static constexpr int bytes = empty + STAGES * 8;
};

// Publishes nothing: initialized barriers have a fence of their own, and at the end only exits wait.
DEVICE void wait_for_cluster() {
  barrier_cluster_arrive_relaxed();
  barrier_cluster_wait();
}

KERNEL(THREADS, 1) cluster_multicast(GRID_CONSTANT const StagedParams params) {
  const auto& [tma, tiles, blocks] = params.persistent;
  const GemmArgs& args = tma.args;
  const uint32_t smem = shared_base();
  const uint32_t a_smem = smem + SharedMemory::a, b_smem = smem + SharedMemory::b, full = smem + SharedMemory::full;
  const uint32_t empty = smem + SharedMemory::empty;
  const int warp = shfl_idx(tid_x() / WARP_SIZE, 0), lane = tid_x() % WARP_SIZE;
  const int group_row = warp / WARPGROUP_WARPS * M_TILES * WARPGROUP_ROWS;  // the warpgroup's first
  const int rank = cluster_ctarank();
  const int warp_row = group_row + warp % WARPGROUP_WARPS * C_ROWS;
  const uint32_t c_smem = smem + SharedMemory::c + warp * C_BUFFERS * C_BYTES;  // this warp's buffers

  if (tid_x() == 0) {
    for (int stage = 0; stage < STAGES; ++stage)
      mbarrier_init(full + stage * 8, 1), mbarrier_init(empty + stage * 8, CLUSTER * WARPS);
    fence_mbarrier_init();  // TMA sees the initialized barriers ...
  }
  wait_for_cluster();  // ... and so does every thread of both blocks

  const int k_tiles = ceil_div(args.k, BLOCK_K);

  // producer: load every tile as soon as its buffer is empty
  if (warp >= WARPS) {
    setmaxnreg_dec<PRODUCER_REGISTERS>();
    if (warp == WARPS && elect_sync()) {
      Ring ring;
      for (int number = ctaid_x() / CLUSTER; number < tiles; number += blocks) {
        const Tile tile = grouped_tile<CLUSTER * BLOCK_M>(args, number);
        for (int j = 0; j < k_tiles; ++j, ring.advance()) {
          const uint32_t a = a_smem + ring.stage * A_BYTES, b = b_smem + ring.stage * B_BYTES;
          const uint32_t arrived = full + ring.stage * 8;
          wait(empty + ring.stage * 8, ring.phase ^ 1);  // passes immediately in the first round
          mbarrier_arrive_expect_tx(arrived, A_BYTES + B_BYTES);
          cp_async_bulk_tensor_load<2>(a, tma.a, {j * BLOCK_K, tile.row + rank * BLOCK_M}, arrived);
          cp_async_bulk_tensor_load_multicast<2>(b + rank * B_SHARE * ROW_BYTES, tma.b,
                                                 {j * BLOCK_K, tile.col + rank * B_SHARE}, arrived, (1 << CLUSTER) - 1);
        }
      }
    }
    bar_warp_sync();  // reconverge before the aligned barrier of the cluster
    return wait_for_cluster();
  }
  setmaxnreg_inc<CONSUMER_REGISTERS>();

  Ring ring;
  int buffer = 0;
  for (int number = ctaid_x() / CLUSTER; number < tiles; number += blocks) {
    const Tile tile = grouped_tile<CLUSTER * BLOCK_M>(args, number);
    float c_regs[M_TILES][BLOCK_N / 2] = {};
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
      // Lane r releases the buffer in the block of rank r. The buffer was only read, and the wait for the products has
      // returned: nothing needs a release, which at cluster scope is a GPU-wide fence (cluster.cuh).
      if (lane < CLUSTER) mbarrier_arrive_relaxed_cluster(mapa(empty + ring.stage * 8, lane));
    }

    // epilogue
#pragma unroll
    for (int m = 0; m < M_TILES; ++m) {
#pragma unroll
      for (int n = 0; n < BLOCK_N; n += C_COLUMNS) {
        const uint32_t staged = c_smem + buffer * C_BYTES;
        if (lane == 0) cp_async_bulk_wait_group_read<C_BUFFERS - 1>();
        bar_warp_sync();  // the buffer may be written
        stage_c(staged, args, c_regs[m], n, tile.col);
        fence_proxy_async_shared();
        bar_warp_sync();  // the buffer is complete
        if (lane == 0) {
          cp_async_bulk_tensor_store<2>(
              params.c, {tile.col + n, tile.row + rank * BLOCK_M + warp_row + m * WARPGROUP_ROWS}, staged);
          cp_async_bulk_commit_group();
        }
        buffer = buffer + 1 == C_BUFFERS ? 0 : buffer + 1;
      }
    }
  }
  if (lane == 0) cp_async_bulk_wait_group_read<0>();  // shared memory outlives its stores
  bar_warp_sync();
  wait_for_cluster();
}

}  // namespace

EXPORT int shared_memory_bytes() { return SharedMemory::bytes; }

EXPORT int launch(const GemmArgs* args, void* stream) {
  StagedParams params{{{*args}}};
  if (const Error error = prepare<CLUSTER>(params.persistent)) return error;
  if (const Error error = encode(params.c, *args)) return error;
  const Grid grid{params.persistent.blocks * CLUSTER, 1, 1};
  return launch_kernel_cluster<cluster_multicast>(grid, {CLUSTER, 1, 1}, THREADS, SharedMemory::bytes, stream, params);
}
