// Hilbert order: blocks take the tiles of C along a Hilbert curve. Builds on tma_store_epilogue; changes the order of
// the tiles, and the number of blocks. Supports any m, and any n and k that are multiples of 8.
//
// Tiles that are near on the curve are near in C: those that are worked on at the same time share rows of A and of B in
// L2, and so does one wave with the next. The curve goes through squares of C, of two tiles each if a tile is 128 x
// 256, and skips what is outside of C. As few blocks as need no more waves, 128 at 4096 and 8192 cubed, make a wave a
// square. To find a tile's place takes a hundred instructions or more. The producer alone computes it, while the ring
// is full, and the consumers get it in shared memory with each buffer. Fences and waits are those of
// tma_store_epilogue.
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
// Tiles of the curve's smallest squares: one below the other, or side by side.
constexpr int HIGH = BLOCK_N > BLOCK_M ? BLOCK_N / BLOCK_M : 1, WIDE = BLOCK_M > BLOCK_N ? BLOCK_M / BLOCK_N : 1;

struct Side {  // of a square, in tiles
  int first, size;
  int end;  // of C
  DEVICE int inside() const {
    const int left = end - first;
    return left < 0 ? 0 : left < size ? left : size;
  }
};

DEVICE void swap(Side& a, Side& b) {
  const Side other = a;
  a = b, b = other;
}

// Cuts a square in two across the side `cut`, which becomes that of the half that has tile `number` of the curve;
// `number` then counts from the half's first. The curve comes to the half of lower tiles first, to that of higher ones
// if it runs backwards. Returns whether the half is the second.
DEVICE bool halve(int& number, Side& cut, const Side& other, bool backwards) {
  cut.size /= 2;
  cut.first += backwards ? cut.size : 0;
  const int tiles = cut.inside() * other.inside();
  const bool second = number >= tiles;
  number -= second ? tiles : 0;
  cut.first += second ? backwards ? -cut.size : cut.size : 0;
  return second;
}

// Tile `number` of the curve through a square around C. The curve goes through the quarters of a square in a U. In the
// first quarter and the last it is turned, rows for columns; in the last it runs backwards too.
DEVICE Tile hilbert_tile(const GemmArgs& args, int number) {
  Side a{0, HIGH, ceil_div(args.m, BLOCK_M)}, b{0, WIDE, ceil_div(args.n, BLOCK_N)};
  int levels = 0;
  for (; a.size < a.end || b.size < b.end; ++levels) a.size *= 2, b.size *= 2;
  bool turned = false, backwards = false;
  for (; levels > 0; --levels) {
    const bool second = halve(number, a, b, backwards);
    const bool last = halve(number, b, a, backwards != second);
    if (second == last) swap(a, b), turned = !turned;
    backwards ^= second && last;
  }
  if (turned) swap(a, b);
  return {(a.first + (HIGH > 1 ? number : 0)) * BLOCK_M, (b.first + (WIDE > 1 ? number : 0)) * BLOCK_N};
}

struct SharedMemory {
  static constexpr int a = 0;
  static constexpr int b = a + STAGES * A_BYTES;
  static constexpr int c = b + STAGES * B_BYTES;
  static constexpr int full = c + WARPS * C_BUFFERS * C_BYTES;
  static constexpr int empty = full + STAGES * 8;
  static constexpr int places = empty + STAGES * 8;  // of the tiles whose steps are in the buffers
  static constexpr int bytes = places + STAGES * 8;
};

KERNEL(THREADS, 1) hilbert_order(GRID_CONSTANT const StagedParams params) {
  const auto& [tma, tiles, blocks] = params.persistent;
  const GemmArgs& args = tma.args;
  const uint32_t smem = shared_base();
  const uint32_t a_smem = smem + SharedMemory::a, b_smem = smem + SharedMemory::b, full = smem + SharedMemory::full;
  const uint32_t empty = smem + SharedMemory::empty, places = smem + SharedMemory::places;
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
        const Tile tile = hilbert_tile(args, number);
        for (int j = 0; j < k_tiles; ++j, ring.advance()) {
          const uint32_t a = a_smem + ring.stage * A_BYTES, b = b_smem + ring.stage * B_BYTES;
          const uint32_t arrived = full + ring.stage * 8;
          wait(empty + ring.stage * 8, ring.phase ^ 1);  // passes immediately in the first round
          st_shared(places + ring.stage * 8, tile);
          mbarrier_arrive_expect_tx(arrived, A_BYTES + B_BYTES);
          cp_async_bulk_tensor_load<2>(a, tma.a, {j * BLOCK_K, tile.row}, arrived);
          cp_async_bulk_tensor_load<2>(b, tma.b, {j * BLOCK_K, tile.col}, arrived);
        }
      }
    }
    return;
  }
  setmaxnreg_inc<CONSUMER_REGISTERS>();

  Ring ring;
  int buffer = 0;
  for (int number = ctaid_x(); number < tiles; number += blocks) {
    wait(full + ring.stage * 8, ring.phase);
    const Tile tile = ld_shared<Tile>(places + ring.stage * 8);
    bar_warp_sync();  // all lanes have read it before one releases the buffer
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
      if (lane == 0) mbarrier_arrive(empty + ring.stage * 8);
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
          cp_async_bulk_tensor_store<2>(params.c, {tile.col + n, tile.row + warp_row + m * WARPGROUP_ROWS}, staged);
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
  level_waves(params.persistent);
  if (const Error error = encode(params.c, *args)) return error;
  const Grid grid{params.persistent.blocks, 1, 1};
  return launch_kernel<hilbert_order>(grid, THREADS, SharedMemory::bytes, stream, params);
}
