// Overlapped index: a warpgroup finds its next places while its products run. Builds on trailing_store; changes when it
// divides for a tile's place in C, and when it advances in the ring. Supports any m, and any n and k that are multiples
// of 8.
//
// The parent divides for the place of the tile before ahead of a tile's first products, and for the tile's own place
// behind its last ones; the tensor cores wait for both. Here the place of the tile before is still in registers, and
// the tile's own is computed once its first products are issued: loads are the producer's, and nothing else needs it
// until C is packed. The next buffer of the ring is found before the wait for the products, too; the buffer to release
// has a place of its own, `done`. No fence moves, for wgmma reads neither place, and a buffer is released behind the
// wait for its products, as in trailing_store.
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
#include <gemm/trailing.cuh>
#include <gemm/warpgroup_tiles.cuh>

namespace {

constexpr int THREADS = WARPS * WARP_SIZE + WARPGROUP;  // plus the producer warpgroup
// setmaxnreg moves registers of the launch (at most 65536) from the producer to one or two consumer warpgroups.
constexpr int PRODUCER_REGISTERS = WARPS == 4 ? 56 : 24, CONSUMER_REGISTERS = WARPS == 4 ? 256 : 240;
static_assert(WARPS == 4 || WARPS == 8);
static_assert(STAGES >= 2, "the next tile is loaded while this one is multiplied");
constexpr int PARTS_N = BLOCK_N / C_COLUMNS, PARTS = M_TILES * PARTS_N;  // of a warp's C: each fills a buffer
constexpr bool TRAILS = sizeof(Output) == 2;
constexpr int GROUP_ROWS = 2048;  // of C

struct SharedMemory {
  static constexpr int a = 0;
  static constexpr int b = a + STAGES * A_BYTES;
  static constexpr int c = b + STAGES * B_BYTES;
  static constexpr int full = c + WARPS * C_BUFFERS * C_BYTES;
  static constexpr int empty = full + STAGES * 8;
  static constexpr int bytes = empty + STAGES * 8;
};

KERNEL(THREADS, 1) overlapped_index(GRID_CONSTANT const StagedParams params) {
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
        }
      }
    }
    return;
  }
  setmaxnreg_inc<CONSUMER_REGISTERS>();

  Ring ring, done;  // done: the buffer whose products the next wait completes
  int buffer = 0;
  float c_regs[M_TILES][BLOCK_N / 2];
  uint32_t c_packed[M_TILES][BLOCK_N / 4];  // of the tile before
  auto multiply = [&](int j) {              // C += A B^T, and C = A B^T in the first step
    wait(full + ring.stage * 8, ring.phase);
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
                                             b_operand + operand_columns(k), j > 0 || k > 0);
    wgmma_commit_group();
  };
  auto finish_step = [&] {
    ring.advance();
    wgmma_wait_group<0>();
#pragma unroll
    for (int m = 0; m < M_TILES; ++m) register_fence(c_regs[m]);
    if (lane == 0) mbarrier_arrive(empty + done.stage * 8);
    done.advance();
  };
  auto store = [&](const Tile& tile, int part) {  // a buffer of C
    const int m = part / PARTS_N, n = part % PARTS_N * C_COLUMNS;
    const uint32_t staged = c_smem + buffer * C_BYTES;
    if (lane == 0) cp_async_bulk_wait_group_read<C_BUFFERS - 1>();
    bar_warp_sync();  // the buffer may be written
    if constexpr (TRAILS)
      stage_packed(staged, c_packed[m], n);
    else
      stage_c(staged, args, c_regs[m], n, tile.col);
    fence_proxy_async_shared();
    bar_warp_sync();  // the buffer is complete
    if (lane == 0) {
      cp_async_bulk_tensor_store<2>(params.c, {tile.col + n, tile.row + warp_row + m * WARPGROUP_ROWS}, staged);
      cp_async_bulk_commit_group();
    }
    buffer = buffer + 1 == C_BUFFERS ? 0 : buffer + 1;
  };
  Tile tile{};
  for (int number = ctaid_x(); number < tiles; number += blocks) {
    const Tile before = tile;
    int j = 0;
    if (TRAILS && number >= blocks && k_tiles >= PARTS) {
#pragma unroll
      for (; j < PARTS; ++j) {
        multiply(j);
        if (j == 0) tile = grouped_tile<BLOCK_M, BLOCK_N, GROUP_ROWS / BLOCK_M>(args, number);
        store(before, j);
        finish_step();
      }
    } else {
      if (TRAILS && number >= blocks) {
#pragma unroll
        for (int part = 0; part < PARTS; ++part) store(before, part);
      }
      tile = grouped_tile<BLOCK_M, BLOCK_N, GROUP_ROWS / BLOCK_M>(args, number);
    }
    for (; j < k_tiles; ++j) multiply(j), finish_step();

    // epilogue
#pragma unroll
    for (int m = 0; TRAILS && m < M_TILES; ++m) pack(c_packed[m], args, c_regs[m], tile.col);
    if (!TRAILS || number + blocks >= tiles) {  // nothing follows
#pragma unroll
      for (int part = 0; part < PARTS; ++part) store(tile, part);
    }
  }
  if (lane == 0) cp_async_bulk_wait_group_read<0>();  // shared memory outlives its stores
}

}  // namespace

EXPORT int shared_memory_bytes() { return SharedMemory::bytes; }

EXPORT int launch(const GemmArgs* args, void* stream) {
  StagedParams params{{{*args}}};
  if (const Error error = prepare(params.persistent)) return error;
  level_waves(params.persistent);
  if (const Error error = encode(params.c, *args)) return error;
  const Grid grid{params.persistent.blocks, 1, 1};
  return launch_kernel<overlapped_index>(grid, THREADS, SharedMemory::bytes, stream, params);
}
