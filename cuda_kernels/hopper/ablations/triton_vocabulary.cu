// A kernel that does what core Triton can say, and nothing else: blocks of four or eight warps that all do the same,
// sizes in powers of two, and a wait for both products before the softmax. Builds on wgmma, less its ring of mbarriers.
// Takes any lengths and strides.
//
// Of two blocks on a multiprocessor one is in its softmax while the other multiplies; that is all that overlaps, but
// for O += P V, which is in flight over the end of a step, as core Triton leaves it. One thread asks for K and V again
// as soon as the block has left their buffers. Keys come from the last to the first, so that the masked ones are first.
#include <attention.cuh>
#include <ptx/barrier.cuh>
#include <ptx/fence.cuh>
#include <ptx/ld_st.cuh>
#include <ptx/math.cuh>
#include <ptx/mbarrier.cuh>
#include <ptx/shfl.cuh>
#include <ptx/vote.cuh>
#include <ptx/wgmma.cuh>
#include <tile_schedulers.cuh>
#include <tma_params.cuh>
#include <warpgroup_tiles.cuh>

namespace {

constexpr int THREADS = WARPS * WARP_SIZE;
constexpr int BLOCKS = WARPS == 4 ? 2 : 1;  // on a multiprocessor, at least
static_assert(BLOCK_M * WARPGROUP == WARPGROUP_ROWS * THREADS, "each warpgroup owns 64 query rows");
static_assert((BLOCK_N & (BLOCK_N - 1)) == 0 && (WARPS & (WARPS - 1)) == 0, "powers of two");
static_assert(BLOCK_N % MMA_K == 0 && BLOCK_N <= 256);

struct SharedMemory {
  static constexpr int q = 0;
  static constexpr int k = q + Q_BYTES;
  static constexpr int v = k + STAGES * KV_BYTES;
  static constexpr int q_full = v + STAGES * KV_BYTES;
  static constexpr int k_full = q_full + 8;
  static constexpr int v_full = k_full + STAGES * 8;
  static constexpr int bytes = v_full + STAGES * 8;
};
static_assert(SharedMemory::k % 1024 == 0 && KV_BYTES % 1024 == 0, "the swizzle pattern starts at each buffer");

KERNEL(THREADS, BLOCKS) triton_vocabulary(GRID_CONSTANT const TmaParams params) {
  const AttentionArgs& args = params.args;
  const LongestFirst order(args, ctaid_x());
  const BlockTile tile(args, order.batch, order.head, order.q_tile);
  const uint32_t smem = shared_base();
  const uint32_t q_smem = smem + SharedMemory::q;
  const uint32_t k_smem = smem + SharedMemory::k;
  const uint32_t v_smem = smem + SharedMemory::v;
  const uint32_t q_full = smem + SharedMemory::q_full;
  const uint32_t k_full = smem + SharedMemory::k_full, v_full = smem + SharedMemory::v_full;
  const int warp = shfl_idx(tid_x() / WARP_SIZE, 0), lane = tid_x() % WARP_SIZE;
  const int warpgroup = warp / WARPGROUP_WARPS;
  // In an accumulator this lane holds rows group and group + 8 of its warp's 16, columns 2 * quad and the next.
  const int group = lane / 4, quad = lane % 4;
  const int warp_row = warp * 16;

  const float scale_log2 = args.scale * LOG2_E;
  float o_regs[HEAD_DIM / 2] = {};
  float row_max[2] = {-INFINITY_F32, -INFINITY_F32}, row_sum[2] = {};

  const int key_tiles = ceil_div(tile.visible_keys(args), BLOCK_N);
  const int whole_tiles = tile.unmasked_keys(args) / BLOCK_N;  // tiles that every row sees whole
  const int last_key[2] = {tile.last_key(args, warp_row + group), tile.last_key(args, warp_row + group + 8)};
  const int q_rows = args.seq_q - tile.q_start;
  const bool elected = warp == 0 && elect_sync();

  if (tid_x() == 0) {
    mbarrier_init(q_full, 1);
    for (int stage = 0; stage < STAGES; ++stage)
      mbarrier_init(k_full + stage * 8, 1), mbarrier_init(v_full + stage * 8, 1);
    fence_mbarrier_init();
  }
  bar_sync();  // the barriers are there

  // By the elected thread: the tile of step `step`, if there is one, where step % STAGES says.
  auto load_k = [&](int step, int stage) {
    if (step < key_tiles)
      load_tile<BLOCK_N>(k_smem + stage * KV_BYTES, params.k, (key_tiles - 1 - step) * BLOCK_N, tile.head_kv,
                         tile.batch, k_full + stage * 8);
  };
  auto load_v = [&](int step, int stage) {
    if (step < key_tiles)
      load_tile<BLOCK_N>(v_smem + stage * KV_BYTES, params.v, (key_tiles - 1 - step) * BLOCK_N, tile.head_kv,
                         tile.batch, v_full + stage * 8);
  };

  // load Q, and the first STAGES tiles of K and V behind it
  if (elected && key_tiles > 0) {
    load_tile<BLOCK_M>(q_smem, params.q, tile.q_start, tile.head, tile.batch, q_full);
    for (int step = 0; step < STAGES; ++step) load_k(step, step), load_v(step, step);
  }
  if (key_tiles > 0) wait(q_full, 0);

  const uint64_t q_operand = k_major(q_smem + warpgroup * WARPGROUP_ROWS * ROW_BYTES);
  float s_regs[BLOCK_N / 2];
  uint32_t p_regs[BLOCK_N / MMA_K][4];
  Ring ring;
  auto attend = [&]<bool MASKED>(int step) {
    // S = Q K^T
    wait(k_full + ring.stage * 8, ring.phase);
    const uint64_t k_operand = k_major(k_smem + ring.stage * KV_BYTES);
    register_fence(s_regs);
    wgmma_fence();
#pragma unroll
    for (int d = 0; d < HEAD_DIM; d += MMA_K)
      wgmma_mma_async_ss<Element, BLOCK_N>(s_regs, q_operand + k_major_columns<BLOCK_M>(d),
                                           k_operand + k_major_columns<BLOCK_N>(d), d != 0);
    wgmma_commit_group();
    wgmma_wait_group<0>();  // the P V of the step before, too
    register_fence(s_regs), register_fence(o_regs), register_fence(p_regs);
    bar_sync();  // the whole block has left K of this step and V of the one before
    if (elected) {
      load_k(step + STAGES, ring.stage);
      if (step > 0) load_v(step - 1 + STAGES, ring.stage == 0 ? STAGES - 1 : ring.stage - 1);
    }
    if (MASKED) {
      const int kv_start = (key_tiles - 1 - step) * BLOCK_N;
#pragma unroll
      for (int i = 0; i < BLOCK_N / 2; ++i)
        if (i / 4 * 8 + i % 2 > last_key[i / 2 % 2] - kv_start - quad * 2) s_regs[i] = -INFINITY_F32;
    }

    // online softmax
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float new_max = max_f32(s_regs[half * 2], s_regs[half * 2 + 1]);
#pragma unroll
      for (int n = half * 2 + 4; n < BLOCK_N / 2; n += 4) new_max = max_f32(new_max, max_f32(s_regs[n], s_regs[n + 1]));
      new_max = max_f32(row_max[half], quad_reduce_max(new_max) * scale_log2);
      // A row without a visible key so far has max -inf; subtracting 0 instead keeps exp(-inf) = 0.
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

    // O += P V
    wait(v_full + ring.stage * 8, ring.phase);
    const uint64_t v_operand = mn_major<BLOCK_N>(v_smem + ring.stage * KV_BYTES);
    register_fence(o_regs), register_fence(p_regs);
    wgmma_fence();
#pragma unroll
    for (int n = 0; n < BLOCK_N / MMA_K; ++n)
      wgmma_mma_async_rs<Element, HEAD_DIM, true>(o_regs, p_regs[n], v_operand + mn_major_rows(n * MMA_K), 1);
    wgmma_commit_group();
    ring.advance();
  };

  int step = 0;
  for (; step < key_tiles - whole_tiles; ++step) attend.template operator()<true>(step);
  for (; step < key_tiles; ++step) attend.template operator()<false>(step);
  wgmma_wait_group<0>();
  register_fence(o_regs);

  // epilogue
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = warp_row + group + half * 8;
    const float sum = quad_reduce_sum(row_sum[half]);
    const float inverse = sum > 0.f ? rcp_approx_ftz(sum) : 0.f;
    if (row < q_rows) {
      Element* o = tile.o(args) + row * args.o_stride.seq;
#pragma unroll
      for (int d = 0; d < HEAD_DIM / 8; ++d)
        st_global(o + d * 8 + quad * 2,
                  cvt_pack<Element>(o_regs[d * 4 + half * 2] * inverse, o_regs[d * 4 + half * 2 + 1] * inverse));
      if (quad == 0)
        st_global(tile.lse(args) + row, sum > 0.f ? (row_max[half] + lg2_approx_ftz(sum)) * LN_2 : -INFINITY_F32);
    }
  }
}

}  // namespace

EXPORT int shared_memory_bytes() { return SharedMemory::bytes; }

EXPORT int launch(const AttentionArgs* args, void* stream) {
  TmaParams params{*args};
  if (const Error error = encode(params, SLAB, Swizzle::bytes_128)) return error;
  const Grid grid{LongestFirst::blocks(*args), 1, 1};
  return launch_kernel<triton_vocabulary>(grid, THREADS, SharedMemory::bytes, stream, params);
}
