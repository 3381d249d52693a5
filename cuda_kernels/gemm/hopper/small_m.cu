// Few rows of C: operands change places, so that rows of B fill the 64 rows of wgmma, and those of A are its columns,
// of which it takes as few as 16. Builds on split_k; changes the tile, who has which sums, and how B is read. Supports
// any m, and any n and k that are multiples of 8.
//
// A product with 16 rows of A reads each element of B once and multiplies it 16 times: it is only as fast as B arrives.
// With A first, wgmma would multiply 64 rows, most of them zeros, and a tile of C with enough columns to read B fast
// would need as many sums. C is computed transposed, as B A^T; neighbouring columns of C lie in different lanes, so
// each lane stores its sums one by one. B is read once, with the hint of evict_first. The blocks of a cluster take the
// steps of k in turn: at any time they read neighbouring columns of B, which share the rows of DRAM. Fences and waits
// are those of split_k.
#include <gemm/gemm.cuh>
#include <ptx/barrier.cuh>
#include <ptx/cluster.cuh>
#include <ptx/createpolicy.cuh>
#include <ptx/device.cuh>
#include <ptx/fence.cuh>
#include <ptx/mbarrier.cuh>
#include <ptx/setmaxnreg.cuh>
#include <ptx/shfl.cuh>
#include <ptx/tma.cuh>
#include <ptx/vote.cuh>
#include <ptx/wgmma.cuh>
#include <gemm/operands.cuh>
#include <gemm/tile_order.cuh>
#include <gemm/tma_params.cuh>

namespace {

constexpr int THREADS = WARPS * WARP_SIZE + WARPGROUP;  // plus the producer warpgroup
// setmaxnreg moves registers of the launch (at most 65536) from the producer to one or two consumer warpgroups.
constexpr int PRODUCER_REGISTERS = WARPS == 4 ? 56 : 24, CONSUMER_REGISTERS = WARPS == 4 ? 256 : 240;
static_assert(WARPS == 4 || WARPS == 8);
static_assert(STAGES >= 2, "the next tile is loaded while this one is multiplied");
static_assert(BLOCK_N == WARPS * 16, "a warpgroup has 64 columns of C");
constexpr int LANES = WARPS * WARP_SIZE, SUMS = BLOCK_M * BLOCK_N / LANES;  // of a thread
constexpr int MAX_PARTS = SUMS / 2 < 8 ? SUMS / 2 : 8;
static_assert(SUMS % (2 * MAX_PARTS) == 0, "a share has pairs of neighbouring rows");

struct Params {
  TmaParams tma;
  int parts;  // of k: the blocks of a cluster
};

struct SharedMemory {
  static constexpr int a = 0;
  static constexpr int b = a + STAGES * A_BYTES;
  static constexpr int shares = a;  // over the ring: of each sum, those of all parts
  static constexpr int full = b + STAGES * B_BYTES;
  static constexpr int empty = full + STAGES * 8;
  static constexpr int bytes = empty + STAGES * 8;
};
static_assert(SUMS * LANES * 4 <= SharedMemory::full);

DEVICE void wait_for_cluster() {
  barrier_cluster_arrive();
  barrier_cluster_wait();
}

KERNEL(THREADS, 1) small_m(GRID_CONSTANT const Params params) {
  const GemmArgs& args = params.tma.args;
  const int parts = params.parts, part = cluster_ctarank();
  const Tile tile = grouped_tile(args, ctaid_x() / parts);
  const uint32_t smem = shared_base();
  const uint32_t a_smem = smem + SharedMemory::a, b_smem = smem + SharedMemory::b, full = smem + SharedMemory::full;
  const uint32_t empty = smem + SharedMemory::empty;
  const int warp = shfl_idx(tid_x() / WARP_SIZE, 0), lane = tid_x() % WARP_SIZE;
  const int group_col = warp / WARPGROUP_WARPS * WARPGROUP_ROWS;  // the warpgroup's first
  // In an accumulator this lane holds columns group and group + 8 of its warp's 16, rows 2 * quad and 2 * quad + 1.
  const int group = lane / 4, quad = lane % 4;

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
      for (int j = part; j < k_tiles; j += parts, ring.advance()) {
        const uint32_t a = a_smem + ring.stage * A_BYTES, b = b_smem + ring.stage * B_BYTES;
        const uint32_t arrived = full + ring.stage * 8;
        wait(empty + ring.stage * 8, ring.phase ^ 1);  // passes immediately in the first round
        mbarrier_arrive_expect_tx(arrived, A_BYTES + B_BYTES);
        cp_async_bulk_tensor_load<2>(a, params.tma.a, {j * BLOCK_K, tile.row}, arrived);
        cp_async_bulk_tensor_load_cache_hint<2>(b, params.tma.b, {j * BLOCK_K, tile.col}, arrived, read_once);
      }
    }
    return;
  }
  setmaxnreg_inc<CONSUMER_REGISTERS>();

  float c_regs[SUMS] = {};
  Ring ring;
  for (int j = part; j < k_tiles; j += parts, ring.advance()) {
    wait(full + ring.stage * 8, ring.phase);

    // C^T += B A^T
    const uint64_t a_operand = operand(a_smem + ring.stage * A_BYTES);
    const uint64_t b_operand = operand(b_smem + ring.stage * B_BYTES, group_col);
    register_fence(c_regs);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < BLOCK_K; k += MMA_K)
      wgmma_mma_async_ss<Element, BLOCK_M>(c_regs, b_operand + operand_columns(k), a_operand + operand_columns(k), 1);
    wgmma_commit_group();
    wgmma_wait_group<0>();
    register_fence(c_regs);
    if (lane == 0) mbarrier_arrive(empty + ring.stage * 8);
  }

  // epilogue: send to each block its share of the sums
  const int share = SUMS / parts;  // of a thread
  const uint32_t shares = smem + SharedMemory::shares + tid_x() * 4;
  wait_for_cluster();  // all blocks are done with their rings
#pragma unroll
  for (int i = 0; i < SUMS; ++i) {
    const int owner = i * parts / SUMS;
    const uint32_t place = shares + (part * share + i - owner * share) * LANES * 4;
    st_shared_cluster(mapa(place, owner), c_regs[i]);
  }
  wait_for_cluster();  // all shares have arrived
  for (int i = 0; i < share; i += 2) {
    float sums[2] = {};
    for (int from = 0; from < parts; ++from)
      for (int pair = 0; pair < 2; ++pair)
        sums[pair] += ld_shared<float>(shares + (from * share + i + pair) * LANES * 4);
    const int sum = part * share + i;
    const int col = tile.col + group_col + warp % WARPGROUP_WARPS * 16 + group + sum / 2 % 2 * 8;
    for (int pair = 0; pair < 2; ++pair) store(args, tile.row + sum / 4 * 8 + quad * 2 + pair, col, sums[pair]);
  }
}

}  // namespace

EXPORT int shared_memory_bytes() { return SharedMemory::bytes; }

EXPORT int launch(const GemmArgs* args, void* stream) {
  Params params{{*args}, 1};
  int multiprocessors;
  if (const Error error = multiprocessor_count(multiprocessors)) return error;
  while (params.parts < MAX_PARTS && tiles(*args) * params.parts * 2 <= multiprocessors) params.parts *= 2;
  if (const Error error = encode(params.tma)) return error;
  const Grid grid{tiles(*args) * params.parts, 1, 1}, cluster{params.parts, 1, 1};
  return launch_kernel_cluster<small_m>(grid, cluster, THREADS, SharedMemory::bytes, stream, params);
}
