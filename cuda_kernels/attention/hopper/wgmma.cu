// Warpgroup products: a wgmma multiplies 64 query rows by all keys of an iteration, with K and V where TMA put them.
// Builds on tma/mbarrier_ring; changes the instruction of both products, so that a warpgroup owns 64 rows. Blocks start
// longest first, as in ampere/longest_first. Supports any lengths, and strides aligned to 16 bytes.
//
// Descriptors tell wgmma where Q and K are in shared memory; P goes from the registers of S into those of the second
// product's left operand. wgmma is asynchronous, but here every product is waited for at once: while a warpgroup is in
// its softmax, only the other one's products use the tensor cores. An elected thread of warp 0 refills buffers as soon
// as every warp has released them.
#include <attention/attention.cuh>
#include <ptx/barrier.cuh>
#include <ptx/fence.cuh>
#include <ptx/ld_st.cuh>
#include <ptx/math.cuh>
#include <ptx/mbarrier.cuh>
#include <ptx/shfl.cuh>
#include <ptx/vote.cuh>
#include <ptx/wgmma.cuh>
#include <attention/tile_schedulers.cuh>
#include <attention/tma_params.cuh>
#include <attention/warpgroup_tiles.cuh>

namespace {

constexpr int THREADS = WARPS * WARP_SIZE;
static_assert(BLOCK_M * WARPGROUP == WARPGROUP_ROWS * THREADS, "each warpgroup owns 64 query rows");
static_assert(BLOCK_N % MMA_K == 0 && BLOCK_N <= 256);
static_assert(STAGES >= 2, "the next tile is loaded while this one is multiplied");

struct SharedMemory {
  static constexpr int q = 0;
  static constexpr int k = q + Q_BYTES;
  static constexpr int v = k + STAGES * KV_BYTES;
  static constexpr int q_full = v + STAGES * KV_BYTES;
  static constexpr int k_full = q_full + 8;
  static constexpr int v_full = k_full + STAGES * 8;
  static constexpr int k_empty = v_full + STAGES * 8;
  static constexpr int v_empty = k_empty + STAGES * 8;
  static constexpr int bytes = v_empty + STAGES * 8;
};
static_assert(SharedMemory::k % 1024 == 0 && KV_BYTES % 1024 == 0, "the swizzle pattern starts at each buffer");

KERNEL(THREADS, 1) wgmma(GRID_CONSTANT const TmaParams params) {
  const AttentionArgs& args = params.args;
  const LongestFirst order(args, ctaid_x());
  const BlockTile tile(args, order.batch, order.head, order.q_tile);
  const uint32_t smem = shared_base();
  const uint32_t q_smem = smem + SharedMemory::q;
  const uint32_t k_smem = smem + SharedMemory::k;
  const uint32_t v_smem = smem + SharedMemory::v;
  const uint32_t q_full = smem + SharedMemory::q_full;
  const uint32_t k_full = smem + SharedMemory::k_full, v_full = smem + SharedMemory::v_full;
  const uint32_t k_empty = smem + SharedMemory::k_empty, v_empty = smem + SharedMemory::v_empty;
  const int warp = shfl_idx(tid_x() / WARP_SIZE, 0), lane = tid_x() % WARP_SIZE;
  const int warpgroup = warp / WARPGROUP_WARPS;
  // In an accumulator this lane holds rows group and group + 8 of its warp's 16, columns 2 * quad and 2 * quad + 1.
  const int group = lane / 4, quad = lane % 4;
  const int warp_row = warp * 16;

  const float scale_log2 = args.scale * LOG2_E;
  float o_regs[HEAD_DIM / 2] = {};
  float row_max[2] = {-INFINITY_F32, -INFINITY_F32}, row_sum[2] = {};

  const int key_tiles = ceil_div(tile.visible_keys(args), BLOCK_N);
  const int whole_tiles = tile.unmasked_keys(args) / BLOCK_N;  // key tiles that need no mask
  const int q_rows = args.seq_q - tile.q_start;

  if (tid_x() == 0) {
    mbarrier_init(q_full, 1);
    for (int stage = 0; stage < STAGES; ++stage) {
      mbarrier_init(k_full + stage * 8, 1), mbarrier_init(v_full + stage * 8, 1);
      mbarrier_init(k_empty + stage * 8, WARPS), mbarrier_init(v_empty + stage * 8, WARPS);
    }
    fence_mbarrier_init();
  }
  bar_sync();  // every thread sees the initialized barriers

  auto load_k = [&](int j, int stage) {
    load_tile<BLOCK_N>(k_smem + stage * KV_BYTES, params.k, j * BLOCK_N, tile.head_kv, tile.batch, k_full + stage * 8);
  };
  auto load_v = [&](int j, int stage) {
    load_tile<BLOCK_N>(v_smem + stage * KV_BYTES, params.v, j * BLOCK_N, tile.head_kv, tile.batch, v_full + stage * 8);
  };

  // load Q, then the first STAGES tiles of K and V
  if (warp == 0 && elect_sync() && key_tiles > 0) {
    load_tile<BLOCK_M>(q_smem, params.q, tile.q_start, tile.head, tile.batch, q_full);
    for (int j = 0; j < STAGES && j < key_tiles; ++j) load_k(j, j), load_v(j, j);
  }
  if (key_tiles > 0) wait(q_full, 0);

  const uint64_t q_operand = k_major(q_smem + warpgroup * WARPGROUP_ROWS * ROW_BYTES);
  float s_regs[BLOCK_N / 2];
  uint32_t p_regs[BLOCK_N / MMA_K][4];
  Ring ring;
  for (int j = 0; j < key_tiles; ++j) {
    const int stage = ring.stage, phase = ring.phase;  // of this iteration's buffers
    // Refill the previous iteration's buffers, for the iteration that comes STAGES - 1 after this one.
    const bool refills = warp == 0 && j > 0 && j + STAGES - 1 < key_tiles;
    const int before = stage == 0 ? STAGES - 1 : stage - 1, before_phase = stage == 0 ? phase ^ 1 : phase;

    wait(k_full + stage * 8, phase);
    if (refills && elect_sync()) {
      wait(k_empty + before * 8, before_phase);
      load_k(j + STAGES - 1, before);
    }

    // S = Q K^T
    const uint64_t k_operand = k_major(k_smem + stage * KV_BYTES);
    register_fence(s_regs);
    wgmma_fence();
#pragma unroll
    for (int d = 0; d < HEAD_DIM; d += MMA_K)
      wgmma_mma_async_ss<Element, BLOCK_N>(s_regs, q_operand + k_major_columns<BLOCK_M>(d),
                                           k_operand + k_major_columns<BLOCK_N>(d), d != 0);
    wgmma_commit_group();
    wgmma_wait_group<0>();
    register_fence(s_regs);
    if (lane == 0) mbarrier_arrive(k_empty + stage * 8);
    if (j >= whole_tiles) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int visible = tile.last_key(args, warp_row + group + half * 8) - j * BLOCK_N - quad * 2;
#pragma unroll
        for (int n = half * 2; n < BLOCK_N / 2; n += 4)
          for (int i = 0; i < 2; ++i)
            if (n / 4 * 8 + i > visible) s_regs[n + i] = -INFINITY_F32;
      }
    }

    // online softmax
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float new_max = -INFINITY_F32;
#pragma unroll
      for (int n = half * 2; n < BLOCK_N / 2; n += 4) new_max = max_f32(new_max, max_f32(s_regs[n], s_regs[n + 1]));
      new_max = max_f32(row_max[half], quad_reduce_max(new_max) * scale_log2);
      // A row without a visible key has maximum -inf: subtract 0 instead, because -inf - (-inf) would be NaN.
      const float new_base = new_max == -INFINITY_F32 ? 0.f : new_max;
      const float rescale = ex2_approx_ftz(row_max[half] - new_base);
      row_max[half] = new_max;
      row_sum[half] *= rescale;
#pragma unroll
      for (int n = half * 2; n < BLOCK_N / 2; n += 4) {
        for (int i = n; i < n + 2; ++i) {
          s_regs[i] = ex2_approx_ftz(s_regs[i] * scale_log2 - new_base);
          row_sum[half] += s_regs[i];
        }
      }
#pragma unroll
      for (int d = half * 2; d < HEAD_DIM / 2; d += 4) o_regs[d] *= rescale, o_regs[d + 1] *= rescale;
    }
#pragma unroll
    for (int n = 0; n < BLOCK_N / MMA_K; ++n)
      for (int i = 0; i < 4; ++i) p_regs[n][i] = cvt_pack<Element>(s_regs[n * 8 + i * 2], s_regs[n * 8 + i * 2 + 1]);

    if (refills && elect_sync()) {
      wait(v_empty + before * 8, before_phase);
      load_v(j + STAGES - 1, before);
    }
    wait(v_full + stage * 8, phase);

    // O += P V
    const uint64_t v_operand = mn_major<BLOCK_N>(v_smem + stage * KV_BYTES);
    register_fence(o_regs), register_fence(p_regs);
    wgmma_fence();
#pragma unroll
    for (int n = 0; n < BLOCK_N / MMA_K; ++n)
      wgmma_mma_async_rs<Element, HEAD_DIM, true>(o_regs, p_regs[n], v_operand + mn_major_rows(n * MMA_K), 1);
    wgmma_commit_group();
    wgmma_wait_group<0>();
    register_fence(o_regs), register_fence(p_regs);
    if (lane == 0) mbarrier_arrive(v_empty + stage * 8);
    ring.advance();
  }

  // epilogue
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = warp_row + group + half * 8;
    const float sum = quad_reduce_sum(row_sum[half]);
    const float inverse = sum == 0.f ? 0.f : rcp_approx_ftz(sum);
    if (row < q_rows) {
      Element* o = tile.o(args) + row * args.o_stride.seq;
#pragma unroll
      for (int d = 0; d < HEAD_DIM / 8; ++d)
        st_global(o + d * 8 + quad * 2,
                  cvt_pack<Element>(o_regs[d * 4 + half * 2] * inverse, o_regs[d * 4 + half * 2 + 1] * inverse));
      if (quad == 0)
        st_global(tile.lse(args) + row, sum == 0.f ? -INFINITY_F32 : (row_max[half] + lg2_approx_ftz(sum)) * LN_2);
    }
  }
}

}  // namespace

EXPORT int shared_memory_bytes() { return SharedMemory::bytes; }

EXPORT int launch(const AttentionArgs* args, void* stream) {
  TmaParams params{*args};
  if (const Error error = encode(params, SLAB, Swizzle::bytes_128)) return error;
  const Grid grid{LongestFirst::blocks(*args), 1, 1};
  return launch_kernel<wgmma>(grid, THREADS, SharedMemory::bytes, stream, params);
}
