// Stream-K: where whole tiles would leave the last wave empty, clusters share the steps of some tiles evenly. Builds on
// cluster_multicast; changes the loop over tiles. Supports any m, and any n and k that are multiples of 8.
//
// A share begins and ends anywhere in a tile. The worker that has the last step of a tile finishes it: it adds what
// those before it have left in the workspace, in their order, which makes results repeatable. Each warp hands its own
// sums to the warp with the same rows of C, by a flag: before one lane sets it, each lane's stores must be visible to
// the GPU (fence) and all lanes past that fence (warp barrier). The reader's fence keeps its loads behind the flag. The
// reader leaves flag and sums zero for the next launch. All blocks run at the same time, one per multiprocessor, and a
// worker waits only for one of a lower number, so that waiting ends.
//
// With more workers than tiles, those that share A or B read the same steps at the same time, and nobody reads them
// again: loads have the hint of evict_first.
#include <gemm/gemm.cuh>
#include <ptx/atom.cuh>
#include <ptx/barrier.cuh>
#include <ptx/cluster_relaxed.cuh>
#include <ptx/createpolicy.cuh>
#include <ptx/fence.cuh>
#include <ptx/mbarrier.cuh>
#include <ptx/multicast_cache_hint.cuh>
#include <ptx/setmaxnreg.cuh>
#include <ptx/shfl.cuh>
#include <ptx/tma.cuh>
#include <ptx/vote.cuh>
#include <ptx/wgmma.cuh>
#include <gemm/streams.cuh>
#include <gemm/warpgroup_tiles.cuh>

namespace {

constexpr int THREADS = WARPS * WARP_SIZE + WARPGROUP;  // plus the producer warpgroup
// setmaxnreg moves registers of the launch (at most 65536) from the producer to one or two consumer warpgroups.
constexpr int PRODUCER_REGISTERS = WARPS == 4 ? 56 : 24, CONSUMER_REGISTERS = WARPS == 4 ? 256 : 240;
static_assert(WARPS == 4 || WARPS == 8);
static_assert(STAGES >= 2, "the next tile is loaded while this one is multiplied");
constexpr int CLUSTER = 2;  // blocks
constexpr int B_SHARE = BLOCK_N / CLUSTER;
constexpr int LANES = WARPS * WARP_SIZE;
constexpr int SUMS = BLOCK_M * BLOCK_N / LANES;  // of a thread
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

KERNEL(THREADS, 1) stream_k(GRID_CONSTANT const StreamParams params) {
  const TmaParams& tma = params.staged.persistent.tma;
  const GemmArgs& args = tma.args;
  const uint32_t smem = shared_base();
  const uint32_t a_smem = smem + SharedMemory::a, b_smem = smem + SharedMemory::b, full = smem + SharedMemory::full;
  const uint32_t empty = smem + SharedMemory::empty;
  const int warp = shfl_idx(tid_x() / WARP_SIZE, 0), lane = tid_x() % WARP_SIZE;
  const int group_row = warp / WARPGROUP_WARPS * M_TILES * WARPGROUP_ROWS;  // the warpgroup's first
  const int rank = cluster_ctarank(), worker = ctaid_x() / CLUSTER;
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
      const bool one_pass = params.sharers > params.staged.persistent.tiles;
      const uint64_t read_once = createpolicy_evict_first();
      RingOf<STAGES> ring;
      for (Work work(params, k_tiles, worker); work.take(params);) {
        const Tile tile = grouped_tile<CLUSTER * BLOCK_M, BLOCK_N>(args, work.tile);
        for (int j = work.first; j < work.last; ++j, ring.advance()) {
          const uint32_t a = a_smem + ring.stage * A_BYTES;
          const uint32_t b = b_smem + ring.stage * B_BYTES + rank * B_SHARE * ROW_BYTES,
                         arrived = full + ring.stage * 8;
          const int a_at[] = {j * BLOCK_K, tile.row + rank * BLOCK_M},
                    b_at[] = {j * BLOCK_K, tile.col + rank * B_SHARE};
          wait(empty + ring.stage * 8, ring.phase ^ 1);  // passes immediately in the first round
          mbarrier_arrive_expect_tx(arrived, A_BYTES + B_BYTES);
          if (one_pass) {
            cp_async_bulk_tensor_load_cache_hint<2>(a, tma.a, a_at, arrived, read_once);
            cp_async_bulk_tensor_load_multicast_cache_hint(b, tma.b, b_at, arrived, (1 << CLUSTER) - 1, read_once);
          } else {
            cp_async_bulk_tensor_load<2>(a, tma.a, a_at, arrived);
            cp_async_bulk_tensor_load_multicast<2>(b, tma.b, b_at, arrived, (1 << CLUSTER) - 1);
          }
        }
      }
    }
    bar_warp_sync();  // reconverge before the aligned barrier of the cluster
    return wait_for_cluster();
  }
  setmaxnreg_inc<CONSUMER_REGISTERS>();

  RingOf<STAGES> ring;
  int buffer = 0;
  for (Work work(params, k_tiles, worker); work.take(params);) {
    const Tile tile = grouped_tile<CLUSTER * BLOCK_M, BLOCK_N>(args, work.tile);
    float c_regs[M_TILES][BLOCK_N / 2] = {};
    for (int j = work.first; j < work.last; ++j, ring.advance()) {
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

    auto slot = [&](int of) { return Slot<BLOCK_N>(args, of * CLUSTER + rank, params.sharers * CLUSTER); };
    if (work.last < k_tiles) {  // another worker finishes the tile
      const Slot<BLOCK_N> mine = slot(worker);
#pragma unroll
      for (int i = 0; i < SUMS; i += 4) {
        const float* sums = c_regs[i / (BLOCK_N / 2)] + i % (BLOCK_N / 2);
        st_global(mine.sums + i / 4 * LANES, make_float4(sums[0], sums[1], sums[2], sums[3]));
      }
      fence_acq_rel_gpu();
      bar_warp_sync();
      if (lane == 0) atom_exch(mine.flag, 1);
      continue;
    }
    for (int from = worker, left = work.first; left > 0;) {  // steps before the run's
      const Slot<BLOCK_N> other = slot(--from);
      left -= Work::share(params, k_tiles, from + 1) - Work::share(params, k_tiles, from);
      if (lane == 0)
        while (atom_exch(other.flag, 0) == 0) {
        }
      bar_warp_sync();
      fence_acq_rel_gpu();
#pragma unroll
      for (int i = 0; i < SUMS; i += 4) {
        float* sums = c_regs[i / (BLOCK_N / 2)] + i % (BLOCK_N / 2);
        const auto more = ld_global<float4>(other.sums + i / 4 * LANES);
        sums[0] += more.x, sums[1] += more.y, sums[2] += more.z, sums[3] += more.w;
        st_global(other.sums + i / 4 * LANES, float4{});
      }
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
              params.staged.c, {tile.col + n, tile.row + rank * BLOCK_M + warp_row + m * WARPGROUP_ROWS}, staged);
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

EXPORT int workspace_bytes(const GemmArgs* args) {
  StreamParams params{{{{*args}}}};
  return share_steps<CLUSTER>(params) || !params.streamed ? 0 : Slot<BLOCK_N>::bytes(params.sharers * CLUSTER);
}

EXPORT int launch(const GemmArgs* args, void* stream) {
  StreamParams params{{{{*args}}}};
  if (const Error error = share_steps<CLUSTER>(params)) return error;
  if (const Error error = encode<BLOCK_N / CLUSTER>(params.staged.persistent.tma)) return error;
  if (const Error error = encode(params.staged.c, *args)) return error;
  const Grid grid{params.staged.persistent.blocks * CLUSTER, 1, 1};
  return launch_kernel_cluster<stream_k>(grid, {CLUSTER, 1, 1}, THREADS, SharedMemory::bytes, stream, params);
}
