// Groups: one launch multiplies the rows of each by a B of its own, as in a layer of experts. Builds on trailing_store;
// changes which tile a block takes, and where a store ends. Supports any m in a group, 0 too, and any n and k that are
// multiples of 8.
//
// The sizes of groups lie in device memory, where a router has left them: the host knows their sum alone. Blocks count
// tiles group by group, and walk on from the group of their last tile. The last tile of a group has rows of the next
// one: what is loaded of them is multiplied and dropped, and the map of C cuts them off, so that TMA stores every box;
// a warp without a row of its group stages nothing. B has the group for a third coordinate, so that the last columns
// reach no other expert. Fences and waits are those of trailing_store.
#include <gemm/gemm.cuh>
#include <ptx/barrier.cuh>
#include <ptx/fence.cuh>
#include <ptx/mbarrier.cuh>
#include <ptx/setmaxnreg.cuh>
#include <ptx/shfl.cuh>
#include <ptx/tma.cuh>
#include <ptx/vote.cuh>
#include <ptx/wgmma.cuh>
#include <gemm/groups.cuh>
#include <gemm/trailing.cuh>
#include <gemm/warpgroup_tiles.cuh>

namespace {

constexpr int THREADS = WARPS * WARP_SIZE + WARPGROUP;  // plus the producer warpgroup
// setmaxnreg moves registers of the launch (at most 65536) from the producer to one or two consumer warpgroups.
constexpr int PRODUCER_REGISTERS = WARPS == 4 ? 56 : 24, CONSUMER_REGISTERS = WARPS == 4 ? 256 : 240;
static_assert(WARPS == 4 || WARPS == 8);
static_assert(STAGES >= 2, "the next tile is loaded while this one is multiplied");
constexpr int GROUP_ROWS = 2048;                                         // of C
constexpr int PARTS_N = BLOCK_N / C_COLUMNS, PARTS = M_TILES * PARTS_N;  // of a warp's C: each fills a buffer
constexpr bool TRAILS = sizeof(Output) == 2;

struct SharedMemory {
  static constexpr int a = 0;
  static constexpr int b = a + STAGES * A_BYTES;
  static constexpr int c = b + STAGES * B_BYTES;
  static constexpr int full = c + WARPS * C_BUFFERS * C_BYTES;
  static constexpr int empty = full + STAGES * 8;
  static constexpr int bytes = empty + STAGES * 8;
};

KERNEL(THREADS, 1) grouped(GRID_CONSTANT const GroupedParams params) {
  const auto& [tma, tiles, blocks] = params.staged.persistent;
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
      GroupedTile<GROUP_ROWS> at;
      for (int number = ctaid_x(); at.find(params, number); number += blocks) {
        for (int j = 0; j < k_tiles; ++j, ring.advance()) {
          const uint32_t a = a_smem + ring.stage * A_BYTES, b = b_smem + ring.stage * B_BYTES;
          const uint32_t arrived = full + ring.stage * 8;
          wait(empty + ring.stage * 8, ring.phase ^ 1);  // passes immediately in the first round
          mbarrier_arrive_expect_tx(arrived, A_BYTES + B_BYTES);
          cp_async_bulk_tensor_load<2>(a, tma.a, {j * BLOCK_K, at.tile.row}, arrived);
          cp_async_bulk_tensor_load<3>(b, tma.b, {j * BLOCK_K, at.tile.col, at.group}, arrived);
        }
      }
    }
    return;
  }
  setmaxnreg_inc<CONSUMER_REGISTERS>();

  Ring ring;
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
    wgmma_wait_group<0>();
#pragma unroll
    for (int m = 0; m < M_TILES; ++m) register_fence(c_regs[m]);
    if (lane == 0) mbarrier_arrive(empty + ring.stage * 8);
    ring.advance();
  };
  using At = GroupedTile<GROUP_ROWS>;
  auto store = [&](const At& at, int part) {  // a buffer of C
    const int m = part / PARTS_N, n = part % PARTS_N * C_COLUMNS;
    const int row = at.tile.row + warp_row + m * WARPGROUP_ROWS, kept = at.end - row;
    if (kept <= 0) return;
    const uint32_t staged = c_smem + buffer * C_BYTES;
    if (lane == 0) cp_async_bulk_wait_group_read<C_BUFFERS - 1>();
    bar_warp_sync();  // the buffer may be written
    if constexpr (TRAILS)
      stage_packed(staged, c_packed[m], n);
    else
      stage_c(staged, args, c_regs[m], n, at.tile.col);
    fence_proxy_async_shared();
    bar_warp_sync();  // the buffer is complete
    if (lane == 0) {
      store_box(params.staged.c, at.tile.col + n, row, kept, staged);
      cp_async_bulk_commit_group();
    }
    buffer = buffer + 1 == C_BUFFERS ? 0 : buffer + 1;
  };
  At at, before;
  bool follows = false;  // a tile before this one
  for (int number = ctaid_x(); at.find(params, number); number += blocks) {
    int j = 0;
    if (TRAILS && follows) {
      if (k_tiles < PARTS) {
#pragma unroll
        for (int part = 0; part < PARTS; ++part) store(before, part);
      } else {
#pragma unroll
        for (; j < PARTS; ++j) multiply(j), store(before, j), finish_step();
      }
    }
    for (; j < k_tiles; ++j) multiply(j), finish_step();

    // epilogue
#pragma unroll
    for (int m = 0; TRAILS && m < M_TILES; ++m) pack(c_packed[m], args, c_regs[m], at.tile.col);
    before = at, follows = TRAILS;
    if (!TRAILS) {
#pragma unroll
      for (int part = 0; part < PARTS; ++part) store(at, part);
    }
  }
  if (follows) {
#pragma unroll
    for (int part = 0; part < PARTS; ++part) store(before, part);
  }
  if (lane == 0) cp_async_bulk_wait_group_read<0>();  // shared memory outlives its stores
}

}  // namespace

EXPORT int shared_memory_bytes() { return SharedMemory::bytes; }

EXPORT int launch(const GroupedArgs* args, void* stream) {
  GroupedParams params{{{{args->gemm}}}, args->offsets, args->groups};
  if (const Error error = prepare(params, *args)) return error;
  const Grid grid{params.staged.persistent.blocks, 1, 1};
  return launch_kernel<grouped>(grid, THREADS, SharedMemory::bytes, stream, params);
}
