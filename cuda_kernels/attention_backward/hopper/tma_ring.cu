// Q and dO come by TMA into a ring of buffers, each with its row's LSE or D: one thread asks for them, steps ahead.
// Builds on wgmma; changes who copies, and what a warp waits for. Supports any lengths, and strides aligned to 16
// bytes; heads that share K and V are summed in the loop.
//
// One mbarrier says that a buffer is full, another that all warps are done with it: no barrier of the block is left,
// so the warpgroups drift apart. TMA writes the swizzle that wgmma reads, and zeros for rows that do not exist. An
// elected thread of warp 0 refills the buffer of the step before as soon as every warp has released it.
// Fences: TMA and wgmma both use the asynchronous proxy, so what is loaded needs none; P and dS, which ordinary
// instructions store, need fence.proxy.async before their barrier. A buffer is released behind wgmma.wait_group, when
// its reads are over. The second barrier of a warpgroup keeps P and dS from being overwritten under another warp's
// wgmma.
#include <attention_backward/attention_backward.cuh>
#include <ptx/barrier.cuh>
#include <ptx/fence.cuh>
#include <ptx/ld_st.cuh>
#include <ptx/math.cuh>
#include <ptx/mbarrier.cuh>
#include <ptx/shfl.cuh>
#include <ptx/vote.cuh>
#include <ptx/wgmma.cuh>
#include <attention_backward/row_sums.cuh>
#include <attention_backward/tma_params.cuh>
#include <attention_backward/warpgroup_tiles.cuh>

namespace {

constexpr int THREADS = WARPS * WARP_SIZE;
constexpr int GROUP_KEYS = WARPGROUP_ROWS;  // of a warpgroup
static_assert(BLOCK_M == WARPGROUP_ROWS, "each warpgroup multiplies all queries of a tile by its own keys");
static_assert(STAGES >= 2, "the next tile is loaded while this one is multiplied");

constexpr int SCORE_BYTES = BLOCK_M * BLOCK_N * ELEMENT_BYTES;  // of P or dS of all warpgroups

struct SharedMemory {
  static constexpr int k = 0;
  static constexpr int v = k + KV_BYTES;
  static constexpr int q = v + KV_BYTES;
  static constexpr int d_o = q + STAGES * Q_BYTES;
  static constexpr int p = d_o + STAGES * Q_BYTES;
  static constexpr int ds = p + SCORE_BYTES;
  static constexpr int lse = ds + SCORE_BYTES;
  static constexpr int dots = lse + STAGES * NUMBERS_BYTES;
  static constexpr int kv_full = dots + STAGES * NUMBERS_BYTES;
  static constexpr int q_full = kv_full + 8;
  static constexpr int do_full = q_full + STAGES * 8;
  static constexpr int q_empty = do_full + STAGES * 8;
  static constexpr int do_empty = q_empty + STAGES * 8;
  static constexpr int bytes = do_empty + STAGES * 8;
};

// One block: dK and dV of BLOCK_N keys of a head of K and V, and what these keys add to dQ.
KERNEL(THREADS, 1) tma_ring(GRID_CONSTANT const TmaParams params) {
  const AttentionBackwardArgs& args = params.args;
  const uint32_t smem = shared_base();
  const uint32_t k_smem = smem + SharedMemory::k, v_smem = smem + SharedMemory::v;
  const uint32_t q_smem = smem + SharedMemory::q, do_smem = smem + SharedMemory::d_o;
  const uint32_t lse_smem = smem + SharedMemory::lse, dots_smem = smem + SharedMemory::dots;
  const uint32_t kv_full = smem + SharedMemory::kv_full;
  const uint32_t q_full = smem + SharedMemory::q_full, do_full = smem + SharedMemory::do_full;
  const uint32_t q_empty = smem + SharedMemory::q_empty, do_empty = smem + SharedMemory::do_empty;
  const int warp = shfl_idx(tid_x() / WARP_SIZE, 0), lane = tid_x() % WARP_SIZE;
  const int warpgroup = warp / WARPGROUP_WARPS, warp_row = warp % WARPGROUP_WARPS * 16;
  // In an accumulator this lane holds rows group and group + 8 of its warp's 16, columns 2 * quad and 2 * quad + 1.
  const int group = lane / 4, quad = lane % 4;
  const uint32_t p_smem = smem + SharedMemory::p + warpgroup * (SCORE_BYTES * GROUP_KEYS / BLOCK_N);
  const uint32_t ds_smem = smem + SharedMemory::ds + warpgroup * (SCORE_BYTES * GROUP_KEYS / BLOCK_N);

  const int kv_start = ctaid_x() * BLOCK_N, head_kv = ctaid_y(), batch = ctaid_z();
  const int first_key = kv_start + warpgroup * GROUP_KEYS;   // of the warpgroup
  QueryTiles tiles(args, kv_start, head_kv), ahead = tiles;  // of this step, and the next to load

  if (tid_x() == 0) {
    mbarrier_init(kv_full, 1);
    for (int stage = 0; stage < STAGES; ++stage) {
      mbarrier_init(q_full + stage * 8, 1), mbarrier_init(do_full + stage * 8, 1);
      mbarrier_init(q_empty + stage * 8, WARPS), mbarrier_init(do_empty + stage * 8, WARPS);
    }
    fence_mbarrier_init();  // TMA sees the initialized barriers ...
  }
  bar_sync();  // ... and so does every thread

  auto load_q = [&](int stage) {
    const Head head(args, batch, ahead.head);
    load_queries(q_smem + stage * Q_BYTES, params.q, lse_smem + stage * NUMBERS_BYTES, head.lse_log2(args),
                 ahead.tile * BLOCK_M, ahead.head, batch, q_full + stage * 8);
  };
  auto load_do = [&](int stage) {
    const Head head(args, batch, ahead.head);
    load_queries(do_smem + stage * Q_BYTES, params.d_o, dots_smem + stage * NUMBERS_BYTES, head.dots(args),
                 ahead.tile * BLOCK_M, ahead.head, batch, do_full + stage * 8);
  };
  const bool loads = warp == 0 && elect_sync();

  // load K and V, then the first STAGES tiles of Q and dO
  if (loads) {
    mbarrier_arrive_expect_tx(kv_full, 2 * KV_BYTES);
    load_tile<BLOCK_N>(k_smem, params.k, kv_start, head_kv, batch, kv_full);
    load_tile<BLOCK_N>(v_smem, params.v, kv_start, head_kv, batch, kv_full);
    for (int j = 0; j < STAGES && j < tiles.steps; ++j, ahead.advance()) load_q(j), load_do(j);
  }
  wait(kv_full, 0);

  const uint64_t k_operand = k_major(k_smem, warpgroup * GROUP_KEYS),
                 v_operand = k_major(v_smem, warpgroup * GROUP_KEYS);
  const uint64_t k_rows = mn_major<BLOCK_N>(k_smem, warpgroup * GROUP_KEYS);
  const uint64_t p_operand = k_major(p_smem), ds_operand = k_major(ds_smem);
  const float scale_log2 = args.scale * LOG2_E;
  float dk_regs[HEAD_DIM / 2] = {}, dv_regs[HEAD_DIM / 2] = {};
  Ring ring;
  for (int step = 0; step < tiles.steps; ++step, tiles.advance()) {
    const Head head(args, batch, tiles.head);
    const int q_start = tiles.tile * BLOCK_M, stage = ring.stage, buffer = stage * Q_BYTES;
    wait(q_full + stage * 8, ring.phase);
    wait(do_full + stage * 8, ring.phase);
    if (loads && step > 0 && step + STAGES - 1 < tiles.steps) {
      const int before = stage == 0 ? STAGES - 1 : stage - 1, before_phase = stage == 0 ? ring.phase ^ 1 : ring.phase;
      wait(q_empty + before * 8, before_phase);
      load_q(before);
      wait(do_empty + before * 8, before_phase);
      load_do(before);
      ahead.advance();
    }
    float lse[2], dot[2];
    for (int half = 0; half < 2; ++half) {
      const int row = warp_row + group + half * 8;
      lse[half] = ld_shared<float>(lse_smem + stage * NUMBERS_BYTES + row * 4);
      dot[half] = ld_shared<float>(dots_smem + stage * NUMBERS_BYTES + row * 4);
    }

    // S = Q K^T, dP = dO V^T
    float s_regs[GROUP_KEYS / 2], dp_regs[GROUP_KEYS / 2];
    const uint64_t q_operand = k_major(q_smem + buffer), do_operand = k_major(do_smem + buffer);
    register_fence(s_regs), register_fence(dp_regs);
    wgmma_fence();
#pragma unroll
    for (int d = 0; d < HEAD_DIM; d += MMA_K)
      wgmma_mma_async_ss<Element, GROUP_KEYS>(s_regs, q_operand + k_major_columns<BLOCK_M>(d),
                                              k_operand + k_major_columns<BLOCK_N>(d), d != 0);
#pragma unroll
    for (int d = 0; d < HEAD_DIM; d += MMA_K)
      wgmma_mma_async_ss<Element, GROUP_KEYS>(dp_regs, do_operand + k_major_columns<BLOCK_M>(d),
                                              v_operand + k_major_columns<BLOCK_N>(d), d != 0);
    wgmma_commit_group();
    wgmma_wait_group<0>();
    register_fence(s_regs), register_fence(dp_regs);

    // P = exp2(S - LSE), dS = P (dP - D): 0 where the mask hides a key, or none exists
    const bool masks = first_key + GROUP_KEYS - 1 > last_key(args, q_start);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int visible = last_key(args, q_start + warp_row + group + half * 8) - first_key - quad * 2;
#pragma unroll
      for (int n = half * 2; n < GROUP_KEYS / 2; n += 4) {
        for (int i = 0; i < 2; ++i) {
          s_regs[n + i] = ex2_approx_ftz(s_regs[n + i] * scale_log2 - lse[half]);
          if (masks && n / 4 * 8 + i > visible) s_regs[n + i] = 0.f;
          dp_regs[n + i] = s_regs[n + i] * (dp_regs[n + i] - dot[half]);
        }
      }
    }
    uint32_t p_regs[GROUP_KEYS / MMA_K][4], ds_regs[GROUP_KEYS / MMA_K][4];
    pack<GROUP_KEYS>(p_regs, s_regs), pack<GROUP_KEYS>(ds_regs, dp_regs);
    store_transposed<GROUP_KEYS>(p_smem, warp_row, p_regs);
    store_transposed<GROUP_KEYS>(ds_smem, warp_row, ds_regs);
    fence_proxy_async_shared();
    bar_sync(1 + warpgroup, WARPGROUP);  // P and dS of the warpgroup are complete

    // dV += P^T dO, dK += dS^T Q, dQ = dS K over the warpgroup's keys
    float dq_regs[HEAD_DIM / 2];
    const uint64_t q_rows = mn_major<BLOCK_M>(q_smem + buffer), do_rows = mn_major<BLOCK_M>(do_smem + buffer);
    register_fence(dv_regs), register_fence(dk_regs), register_fence(dq_regs), register_fence(ds_regs);
    wgmma_fence();
#pragma unroll
    for (int m = 0; m < BLOCK_M; m += MMA_K)
      wgmma_mma_async_ss<Element, HEAD_DIM, true>(dv_regs, p_operand + k_major_columns<GROUP_KEYS>(m),
                                                  do_rows + mn_major_rows(m), 1);
#pragma unroll
    for (int m = 0; m < BLOCK_M; m += MMA_K)
      wgmma_mma_async_ss<Element, HEAD_DIM, true>(dk_regs, ds_operand + k_major_columns<GROUP_KEYS>(m),
                                                  q_rows + mn_major_rows(m), 1);
#pragma unroll
    for (int n = 0; n < GROUP_KEYS; n += MMA_K)
      wgmma_mma_async_rs<Element, HEAD_DIM, true>(dq_regs, ds_regs[n / MMA_K], k_rows + mn_major_rows(n), n != 0);
    wgmma_commit_group();
    wgmma_wait_group<0>();
    register_fence(dv_regs), register_fence(dk_regs), register_fence(dq_regs), register_fence(ds_regs);
    if (lane == 0) mbarrier_arrive(q_empty + stage * 8), mbarrier_arrive(do_empty + stage * 8);
    bar_sync(1 + warpgroup, WARPGROUP);  // no warp of the warpgroup reads P and dS any more
    add_rows<HEAD_DIM>(head.dq_sums(args) + (q_start + warp_row + group) * HEAD_DIM, dq_regs);
    ring.advance();
  }

  // epilogue
  const int key = first_key + warp_row + group;
  const Head kv_head(args, batch, head_kv * (args.heads / args.heads_kv));
  store_keys(args, kv_head.dk(args), args.dk_stride.seq, key, args.scale, dk_regs);
  store_keys(args, kv_head.dv(args), args.dv_stride.seq, key, 1.f, dv_regs);
}

}  // namespace

EXPORT int shared_memory_bytes() { return SharedMemory::bytes; }

EXPORT int launch(const AttentionBackwardArgs* args, void* stream) {
  TmaParams params{*args};
  if (const Error error = encode(params)) return error;
  if (const Error error = launch_row_sums(*args, true, stream)) return error;
  const Grid grid{ceil_div(args->seq_kv, BLOCK_N), args->heads_kv, args->batch};
  if (const Error error = launch_kernel<tma_ring>(grid, THREADS, SharedMemory::bytes, stream, params)) return error;
  return launch_convert_dq(*args, stream);
}
