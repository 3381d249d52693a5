// C evicted first: C is written once, and L2 is told to drop it before anything else. Builds on pingpong_store; changes
// a hint of its stores. Supports any m, and any n and k that are multiples of 8.
//
// Waves read rows of A and B that earlier waves have read. Where k is short C is most of what passes through L2: at
// 8192 x 8192 x 512 it has 134 MB, A and B have 8 MB each. Without a hint it pushes A and B out. With the hint new
// lines of C take the places of its old ones. The hint changes no result, and no fence or wait.
#include <gemm/gemm.cuh>
#include <ptx/barrier.cuh>
#include <ptx/createpolicy.cuh>
#include <ptx/fence.cuh>
#include <ptx/mbarrier.cuh>
#include <ptx/setmaxnreg.cuh>
#include <ptx/shfl.cuh>
#include <ptx/store_cache_hint.cuh>
#include <ptx/tma.cuh>
#include <ptx/vote.cuh>
#include <ptx/wgmma.cuh>
#include <gemm/c_staging.cuh>
#include <gemm/persistent_tiles.cuh>
#include <gemm/warpgroup_tiles.cuh>

namespace {

constexpr int THREADS = WARPS * WARP_SIZE + WARPGROUP;  // plus the producer warpgroup
// setmaxnreg moves registers of the launch (at most 65536) from the producer to two consumer warpgroups.
constexpr int PRODUCER_REGISTERS = 24, CONSUMER_REGISTERS = 240;
static_assert(WARPS == 8, "two warpgroups take turns");
constexpr int TURN = 2 * WARPGROUP;                  // a waiting and an arriving warpgroup
constexpr int TILE_ROWS = BLOCK_M / WARPGROUP_ROWS;  // of wgmma; a warpgroup has all of a tile
static_assert(STAGES >= 2, "the next tile is loaded while this one is multiplied");

struct SharedMemory {
  static constexpr int a = 0;
  static constexpr int b = a + STAGES * A_BYTES;
  static constexpr int c = b + STAGES * B_BYTES;
  static constexpr int full = c + WARPS * C_BUFFERS * C_BYTES;
  static constexpr int empty = full + STAGES * 8;
  static constexpr int bytes = empty + STAGES * 8;
};

KERNEL(THREADS, 1) evict_c_first(GRID_CONSTANT const StagedParams params) {
  const auto& [tma, tiles, blocks] = params.persistent;
  const GemmArgs& args = tma.args;
  const uint32_t smem = shared_base();
  const uint32_t a_smem = smem + SharedMemory::a, b_smem = smem + SharedMemory::b, full = smem + SharedMemory::full;
  const uint32_t empty = smem + SharedMemory::empty;
  const int warp = shfl_idx(tid_x() / WARP_SIZE, 0), lane = tid_x() % WARP_SIZE;
  const int warpgroup = warp / WARPGROUP_WARPS;
  const uint32_t c_smem = smem + SharedMemory::c + warp * C_BUFFERS * C_BYTES;  // this warp's buffers

  if (tid_x() == 0) {
    for (int stage = 0; stage < STAGES; ++stage)
      mbarrier_init(full + stage * 8, 1), mbarrier_init(empty + stage * 8, WARPGROUP_WARPS);
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
        const Tile tile = grouped_tile(args, number);
        for (int j = 0; j < k_tiles; ++j, ring.advance()) {
          const uint32_t a = a_smem + ring.stage * A_BYTES, b = b_smem + ring.stage * B_BYTES;
          const uint32_t arrived = full + ring.stage * 8;
          wait(empty + ring.stage * 8, ring.phase ^ 1);  // passes immediately in the first round
          mbarrier_arrive_expect_tx(arrived, A_BYTES + B_BYTES);
          cp_async_bulk_tensor_load<2>(a, tma.a, {j * BLOCK_K, tile.row}, arrived);
          cp_async_bulk_tensor_load<2>(b, tma.b, {j * BLOCK_K, tile.col}, arrived);
        }
      }
    }
    return;
  }
  setmaxnreg_inc<CONSUMER_REGISTERS>();

  const uint64_t written_once = createpolicy_evict_first();
  const int my_turn = 1 + warpgroup, next_turn = 2 - warpgroup;
  if (warpgroup == 1) bar_arrive(next_turn, TURN);
  Ring ring;
  int buffer = 0;
  if (warpgroup == 1) ring.advance(k_tiles);
  for (int number = ctaid_x() + warpgroup * blocks; number < tiles; number += 2 * blocks) {
    const Tile tile = grouped_tile(args, number);
    float c_regs[TILE_ROWS][BLOCK_N / 2] = {};
#pragma unroll
    for (int m = 0; m < TILE_ROWS; ++m) register_fence(c_regs[m]);
    Ring done = ring;
    bar_sync(my_turn, TURN);
    for (int j = 0; j < k_tiles; ++j, ring.advance()) {
      wait(full + ring.stage * 8, ring.phase);

      // C += A B^T
      const uint64_t a_operand = operand(a_smem + ring.stage * A_BYTES);
      const uint64_t b_operand = operand(b_smem + ring.stage * B_BYTES);
      wgmma_fence();
#pragma unroll
      for (int k = 0; k < BLOCK_K; k += MMA_K)
#pragma unroll
        for (int m = 0; m < TILE_ROWS; ++m)
          wgmma_mma_async_ss<Element, BLOCK_N>(c_regs[m],
                                               a_operand + operand_columns(k) + operand_rows(m * WARPGROUP_ROWS),
                                               b_operand + operand_columns(k), 1);
      wgmma_commit_group();
      if (j == 0) continue;
      wgmma_wait_group<1>();
      if (lane == 0) mbarrier_arrive(empty + done.stage * 8);
      done.advance();
    }
    if (number + blocks < tiles) bar_arrive(next_turn, TURN);
    wgmma_wait_group<0>();
#pragma unroll
    for (int m = 0; m < TILE_ROWS; ++m) register_fence(c_regs[m]);
    if (lane == 0) mbarrier_arrive(empty + done.stage * 8);
    ring.advance(k_tiles);  // past the other warpgroup's tile

    // epilogue
#pragma unroll
    for (int m = 0; m < TILE_ROWS; ++m) {
      const int row = tile.row + m * WARPGROUP_ROWS + warp % WARPGROUP_WARPS * C_ROWS;
#pragma unroll
      for (int n = 0; n < BLOCK_N; n += C_COLUMNS) {
        const uint32_t staged = c_smem + buffer * C_BYTES;
        if (lane == 0) cp_async_bulk_wait_group_read<C_BUFFERS - 1>();
        bar_warp_sync();  // the buffer may be written
        stage_c(staged, args, c_regs[m], n, tile.col);
        fence_proxy_async_shared();
        bar_warp_sync();  // the buffer is complete
        if (lane == 0) {
          cp_async_bulk_tensor_store_cache_hint(params.c, {tile.col + n, row}, staged, written_once);
          cp_async_bulk_commit_group();
        }
        buffer = buffer + 1 == C_BUFFERS ? 0 : buffer + 1;
      }
    }
  }
  if (lane == 0) cp_async_bulk_wait_group_read<0>();  // shared memory outlives its stores
}

}  // namespace

EXPORT int shared_memory_bytes() { return SharedMemory::bytes; }

EXPORT int launch(const GemmArgs* args, void* stream) {
  StagedParams params{{{*args}}};
  if (const Error error = prepare(params.persistent)) return error;
  if (const Error error = encode(params.c, *args)) return error;
  const Grid grid{params.persistent.blocks, 1, 1};
  return launch_kernel<evict_c_first>(grid, THREADS, SharedMemory::bytes, stream, params);
}
