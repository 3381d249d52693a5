// Two blocks of a cluster share K and V: each loads half of a tile, which multicast delivers to both. Builds on
// pinned_maxima; pairs neighbouring tiles. Full attention only, any lengths, and strides aligned to 16 bytes.
//
// Both blocks need the same keys, and L2 delivers each of them once instead of twice. Both producers write to a buffer,
// so each waits until the consumer warps of both blocks have released it; a full barrier counts the bytes of both
// halves. With an odd number of tiles, one block's tile starts past the last query: it loads its half, multiplies zeros
// and stores nothing. No block exits before the other is done, because its memory is still written to.
#include <attention/attention.cuh>
#include <ptx/barrier.cuh>
#include <ptx/cluster.cuh>
#include <ptx/fence.cuh>
#include <ptx/ld_st.cuh>
#include <ptx/math.cuh>
#include <ptx/mbarrier.cuh>
#include <ptx/setmaxnreg.cuh>
#include <ptx/shfl.cuh>
#include <ptx/tma.cuh>
#include <ptx/vote.cuh>
#include <ptx/wgmma.cuh>
#include <attention/tile_schedulers.cuh>
#include <attention/tma_params.cuh>
#include <attention/warpgroup_tiles.cuh>

namespace {

constexpr int CONSUMERS = WARPS * WARP_SIZE;
constexpr int THREADS = CONSUMERS + WARPGROUP;  // plus the producer warpgroup
static_assert(BLOCK_M * WARPGROUP == WARPGROUP_ROWS * CONSUMERS, "each math warpgroup owns 64 query rows");
// setmaxnreg moves registers of the launch (at most 65536) from the producer to two or three consumer warpgroups.
constexpr int PRODUCER_REGISTERS = WARPS == 8 ? 24 : 32;
constexpr int CONSUMER_REGISTERS = WARPS == 8 ? 240 : 160;
static_assert(WARPS == 8 || WARPS == 12, "two or three warpgroups take turns");
constexpr int WARPGROUPS = WARPS / WARPGROUP_WARPS, TURN = 2 * WARPGROUP;  // a waiting and an arriving warpgroup
static_assert(BLOCK_N % MMA_K == 0 && BLOCK_N <= 256);
static_assert(!CAUSAL, "both blocks of a pair see the same keys");
constexpr int BLOCKS = 2;  // per cluster
constexpr int HALF = BLOCK_N / BLOCKS;
static_assert(HALF % 8 == 0, "the swizzle pattern of 8 rows starts at each half");
static_assert(STAGES >= 2, "the next tile is loaded while this one is multiplied");
constexpr float LOWEST = -3.0e38f;  // finite: a row whose scores so far are all -inf never computes -inf - (-inf)

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

// The problem with half as many queries: each of its query tiles stands for a pair of blocks.
inline __host__ __device__ AttentionArgs by_pairs(AttentionArgs args) {
  args.seq_q = ceil_div(args.seq_q, BLOCKS);
  return args;
}

// One thread loads its half of BLOCK_N rows, from `row` on, for both blocks; both halves complete on `full`.
DEVICE void load_half(uint32_t smem, const TensorMap& map, int row, const BlockTile& tile, uint32_t full) {
  const int first = cluster_ctarank() * HALF;
  mbarrier_arrive_expect_tx(full, KV_BYTES);
#pragma unroll
  for (int slab = 0; slab < SLABS; ++slab)
    cp_async_bulk_tensor_load_multicast<4>(smem + slab * (BLOCK_N * ROW_BYTES) + first * ROW_BYTES, map,
                                           {slab * SLAB, row + first, tile.head_kv, tile.batch}, full,
                                           (1 << BLOCKS) - 1);
}

DEVICE void wait_for_cluster() {
  barrier_cluster_arrive();
  barrier_cluster_wait();
}

KERNEL(THREADS, 1) cluster_multicast(GRID_CONSTANT const TmaParams params) {
  const AttentionArgs& args = params.args;
  const LongestFirst order(by_pairs(args), ctaid_x());
  const BlockTile tile(args, order.batch, order.head, order.q_tile * BLOCKS + cluster_ctarank());
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

  const int key_tiles = ceil_div(tile.visible_keys(args), BLOCK_N);

  if (tid_x() == 0) {
    mbarrier_init(q_full, 1);
    for (int stage = 0; stage < STAGES; ++stage) {
      mbarrier_init(k_full + stage * 8, 1), mbarrier_init(v_full + stage * 8, 1);
      mbarrier_init(k_empty + stage * 8, BLOCKS * WARPS), mbarrier_init(v_empty + stage * 8, BLOCKS * WARPS);
    }
    fence_mbarrier_init();
  }
  wait_for_cluster();  // every thread of both blocks sees the initialized barriers

  // Lane r arrives in the block of rank r. The buffer was only read, and the reads are complete, because the wait for
  // the products has returned: nothing needs a release, which at cluster scope is a GPU-wide fence (cluster.cuh).
  auto hand_back = [&](uint32_t empty) {
    if (lane < BLOCKS) mbarrier_arrive_relaxed_cluster(mapa(empty, lane));
  };

  // producer: load Q, then K of every iteration and V of the one before, as buffers become empty
  if (warp >= WARPS) {
    setmaxnreg_dec<PRODUCER_REGISTERS>();
    if (warp == WARPS && elect_sync() && key_tiles > 0) {
      load_tile<BLOCK_M>(q_smem, params.q, tile.q_start, tile.head, tile.batch, q_full);
      Ring k_ring, v_ring;  // all buffers start empty: the first wait on each passes immediately
      for (int j = 0; j <= key_tiles; ++j) {
        if (j < key_tiles) {
          wait(k_empty + k_ring.stage * 8, k_ring.phase ^ 1);
          load_half(k_smem + k_ring.stage * KV_BYTES, params.k, j * BLOCK_N, tile, k_full + k_ring.stage * 8);
          k_ring.advance();
        }
        if (j > 0) {
          wait(v_empty + v_ring.stage * 8, v_ring.phase ^ 1);
          load_half(v_smem + v_ring.stage * KV_BYTES, params.v, (j - 1) * BLOCK_N, tile, v_full + v_ring.stage * 8);
          v_ring.advance();
        }
      }
    }
    bar_warp_sync();  // reconverge before the aligned barrier of the cluster
    return wait_for_cluster();
  }
  setmaxnreg_inc<CONSUMER_REGISTERS>();

  const float scale_log2 = args.scale * LOG2_E;
  float o_regs[HEAD_DIM / 2] = {};
  float row_max[2] = {LOWEST, LOWEST}, row_sum[2] = {};
  const int whole_tiles = tile.unmasked_keys(args) / BLOCK_N;  // key tiles that need no mask
  const int last_key[2] = {tile.last_key(args, warp_row + group), tile.last_key(args, warp_row + group + 8)};
  const int q_rows = args.seq_q - tile.q_start;

  const uint64_t q_operand = k_major(q_smem + warpgroup * WARPGROUP_ROWS * ROW_BYTES);
  float s_regs[BLOCK_N / 2];
  uint32_t p_regs[BLOCK_N / MMA_K][4];
  Ring k_ring, v_ring;  // V lags K by one iteration
  // Named barriers from 1 on say whose turn it is; warpgroup 0 goes first.
  const int my_turn = 1 + warpgroup, next_turn = 1 + (warpgroup + 1) % WARPGROUPS;

  auto issue_qk = [&] {  // S = Q K^T
    const uint64_t k_operand = k_major(k_smem + k_ring.stage * KV_BYTES);
    register_fence(s_regs);
    wgmma_fence();
#pragma unroll
    for (int d = 0; d < HEAD_DIM; d += MMA_K)
      wgmma_mma_async_ss<Element, BLOCK_N>(s_regs, q_operand + k_major_columns<BLOCK_M>(d),
                                           k_operand + k_major_columns<BLOCK_N>(d), d != 0);
    wgmma_commit_group();
  };
  auto issue_pv = [&] {  // O += P V
    const uint64_t v_operand = mn_major<BLOCK_N>(v_smem + v_ring.stage * KV_BYTES);
    register_fence(o_regs), register_fence(p_regs);
    wgmma_fence();
#pragma unroll
    for (int n = 0; n < BLOCK_N / MMA_K; ++n)
      wgmma_mma_async_rs<Element, HEAD_DIM, true>(o_regs, p_regs[n], v_operand + mn_major_rows(n * MMA_K), 1);
    wgmma_commit_group();
  };
  // Leaves the exponentials in S and the factor for O in `rescale`; releases K.
  auto online_softmax = [&]<bool MASKED>(int j, float (&rescale)[2]) {
    if (MASKED) {
#pragma unroll
      for (int i = 0; i < BLOCK_N / 2; ++i)
        if (i / 4 * 8 + i % 2 > last_key[i / 2 % 2] - j * BLOCK_N - quad * 2) s_regs[i] = -INFINITY_F32;
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float new_max = max_f32(s_regs[half * 2], s_regs[half * 2 + 1]);
#pragma unroll
      for (int n = half * 2 + 4; n < BLOCK_N / 2; n += 4) new_max = max_f32(new_max, max_f32(s_regs[n], s_regs[n + 1]));
      new_max = max_f32(row_max[half], quad_reduce_max(new_max) * scale_log2);
      rescale[half] = ex2_approx_ftz(row_max[half] - new_max);
      row_max[half] = new_max;
    }
    const bool ordered = row_max[0] == row_max[0] && row_max[1] == row_max[1];  // always true: max_f32 returns no NaN
    if (ordered) hand_back(k_empty + k_ring.stage * 8);
    k_ring.advance();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      row_sum[half] *= rescale[half];
#pragma unroll
      for (int n = half * 2; n < BLOCK_N / 2; n += 4) {
        for (int i = n; i < n + 2; ++i) {
          s_regs[i] = ex2_approx_ftz(s_regs[i] * scale_log2 - row_max[half]);
          row_sum[half] += s_regs[i];
        }
      }
    }
  };
  auto convert_p = [&] {
#pragma unroll
    for (int n = 0; n < BLOCK_N / MMA_K; ++n)
      for (int i = 0; i < 4; ++i) p_regs[n][i] = cvt_pack<Element>(s_regs[n * 8 + i * 2], s_regs[n * 8 + i * 2 + 1]);
  };
  auto step = [&]<bool MASKED>(int j) {
    wait(k_full + k_ring.stage * 8, k_ring.phase);
    bar_sync(my_turn, TURN);
    issue_qk();
    wait(v_full + v_ring.stage * 8, v_ring.phase);
    issue_pv();
    bar_arrive(next_turn, TURN);
    wgmma_wait_group<1>();  // wait for S; P V may still be in flight
    register_fence(s_regs);
    float rescale[2];
    online_softmax.template operator()<MASKED>(j, rescale);
    wgmma_wait_group<0>();  // P V has finished: O is valid and P may be overwritten
    register_fence(o_regs), register_fence(p_regs);
    hand_back(v_empty + v_ring.stage * 8);
    convert_p();
#pragma unroll
    for (int d = 0; d < HEAD_DIM / 2; ++d) o_regs[d] *= rescale[d / 2 % 2];
    v_ring.advance();
  };

  if (key_tiles > 0) {
    // prologue: the first Q K^T overlaps with no P V
    wait(q_full, 0);
    wait(k_full, 0);
    issue_qk();
    wgmma_wait_group<0>();
    register_fence(s_regs);
    float rescale[2];  // ignored: O is still zero
    if (whole_tiles > 0)
      online_softmax.template operator()<false>(0, rescale);
    else
      online_softmax.template operator()<true>(0, rescale);
    convert_p();

    if (warpgroup == WARPGROUPS - 1) bar_arrive(next_turn, TURN);
    int j = 1;
    for (; j < whole_tiles; ++j) step.template operator()<false>(j);
    for (; j < key_tiles; ++j) step.template operator()<true>(j);

    // the last P V overlaps with no Q K^T; nobody waits for its buffer, so it is not released
    wait(v_full + v_ring.stage * 8, v_ring.phase);
    issue_pv();
    wgmma_wait_group<0>();
    register_fence(o_regs);
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
  wait_for_cluster();
}

}  // namespace

EXPORT int shared_memory_bytes() { return SharedMemory::bytes; }

EXPORT int launch(const AttentionArgs* args, void* stream) {
  TmaParams params{*args};
  if (const Error error = encode(params, SLAB, Swizzle::bytes_128)) return error;
  const AttentionArgs& a = *args;
  Error error = encode(params.k, a.k, a.k_stride, a.batch, a.heads_kv, a.seq_kv, {SLAB, HALF}, Swizzle::bytes_128);
  if (error == 0)
    error = encode(params.v, a.v, a.v_stride, a.batch, a.heads_kv, a.seq_kv, {SLAB, HALF}, Swizzle::bytes_128);
  if (error) return error;
  const Grid grid{LongestFirst::blocks(by_pairs(a)), BLOCKS, 1};
  return launch_kernel_cluster<cluster_multicast>(grid, {1, BLOCKS, 1}, THREADS, SharedMemory::bytes, stream, params);
}
