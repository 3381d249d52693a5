// 80 queries a step instead of 64: a tile of K or V is read from shared memory once for more of them, and products take
// a larger part of the time in which their operands are read. 80 is no M of wgmma, so dQ is computed transposed.
// Builds on half_steps; changes the tile. Supports any lengths, and strides aligned to 16 bytes; heads that share K and
// V are summed in the loop. Declines a mask and any head_dim but 128.
//
// A warpgroup has 64 columns of dQ of all queries: A is K with its columns as rows, B is dS. What half_steps does with
// half of the queries is done with 48, then with 32; P in 16 bits is made 16 queries at a time, because S, dP, dV and
// dK leave 8 of the registers that products can use. 80 divides no power of two: in most last tiles some queries are
// missing. Their Q and dO are zero, and their LSE is plus infinity, so that P and dS are zero.
#include <attention_backward/attention_backward.cuh>
#include <ptx/atom.cuh>
#include <ptx/barrier.cuh>
#include <ptx/bulk_reduce.cuh>
#include <ptx/fence.cuh>
#include <ptx/ld_st.cuh>
#include <ptx/math.cuh>
#include <ptx/mbarrier.cuh>
#include <ptx/setmaxnreg.cuh>
#include <ptx/shfl.cuh>
#include <ptx/tma.cuh>
#include <ptx/turns.cuh>
#include <ptx/vote.cuh>
#include <ptx/wgmma.cuh>
#include <ptx/wgmma_transposed_80.cuh>
#include <attention_backward/eighty_rows.cuh>
#include <attention_backward/parts.cuh>
#include <attention_backward/row_sums.cuh>
#include <attention_backward/tma_params.cuh>
#include <attention_backward/transposed_dq.cuh>
#include <attention_backward/warpgroup_tiles.cuh>
#include <attention_backward/wide_stores.cuh>

namespace {

constexpr int CONSUMERS = WARPS * WARP_SIZE, THREADS = CONSUMERS + WARPGROUP;  // plus the producer warpgroup
constexpr int PRODUCER_REGISTERS = 24, CONSUMER_REGISTERS = 240;               // of 65536 for the block
constexpr int GROUP_KEYS = WARPGROUP_ROWS;                                     // of a warpgroup
static_assert(WARPS == 8 && BLOCK_M == 80 && HEAD_DIM == 128 && !CAUSAL);
static_assert(STAGES >= 2, "the next tile is loaded while this one is multiplied");

constexpr int EARLY = 48;  // queries of a step whose exponentials come first; those of the others run under products
constexpr int SCORE_BYTES = BLOCK_M * BLOCK_N * ELEMENT_BYTES;  // of dS of both warpgroups
constexpr int DQ_BYTES = BLOCK_M * HEAD_DIM / 2 * 4;            // of a warpgroup's part of dQ

// Named barriers. Those of dQ are one for each warpgroup, of its threads and the warp that reduces for it.
constexpr int DS_COMPLETE = 1, DQ_COMPLETE = 2, DQ_TAKEN = 4, DQ_THREADS = WARPGROUP + WARP_SIZE;

struct SharedMemory {
  static constexpr int k = 0;
  static constexpr int v = k + KV_BYTES;
  static constexpr int q = v + KV_BYTES;
  static constexpr int d_o = q + STAGES * Q_BYTES;
  static constexpr int ds = d_o + STAGES * Q_BYTES;
  static constexpr int dq = ds + 2 * SCORE_BYTES;
  static constexpr int lse = dq + 2 * DQ_BYTES;
  static constexpr int dots = lse + STAGES * NUMBERS_BYTES;
  static constexpr int kv_full = dots + STAGES * NUMBERS_BYTES;
  static constexpr int kv_empty = kv_full + 8;
  static constexpr int q_full = kv_empty + 8;
  static constexpr int do_full = q_full + STAGES * 8;
  static constexpr int q_empty = do_full + STAGES * 8;
  static constexpr int do_empty = q_empty + STAGES * 8;
  static constexpr int work = do_empty + STAGES * 8;
  static constexpr int bytes = work + 2 * sizeof(PartTile);
};

// One block at a time: dK and dV of BLOCK_N keys of a head of K and V, and what these keys add to dQ.
KERNEL(THREADS, 1) eighty_rows(GRID_CONSTANT const PartParams parts) {
  const PersistentParams& persistent = parts.persistent;
  const TmaParams& params = persistent.tma;
  const AttentionBackwardArgs& args = params.args;
  const uint32_t smem = shared_base();
  const uint32_t k_smem = smem + SharedMemory::k, v_smem = smem + SharedMemory::v;
  const uint32_t q_smem = smem + SharedMemory::q, do_smem = smem + SharedMemory::d_o;
  const uint32_t lse_smem = smem + SharedMemory::lse, dots_smem = smem + SharedMemory::dots;
  const uint32_t kv_full = smem + SharedMemory::kv_full, kv_empty = smem + SharedMemory::kv_empty;
  const uint32_t q_full = smem + SharedMemory::q_full, do_full = smem + SharedMemory::do_full;
  const uint32_t q_empty = smem + SharedMemory::q_empty, do_empty = smem + SharedMemory::do_empty;
  const int warp = shfl_idx(tid_x() / WARP_SIZE, 0), lane = tid_x() % WARP_SIZE;
  const int warpgroup = warp / WARPGROUP_WARPS, warp_row = warp % WARPGROUP_WARPS * 16;
  // In an accumulator this lane holds rows group and group + 8 of its warp's 16, columns 2 * quad and 2 * quad + 1.
  const int group = lane / 4, quad = lane % 4;
  const uint32_t ds_smem = smem + SharedMemory::ds, dq_smem = smem + SharedMemory::dq;

  auto work_of_round = [&](int round) {
    PartTile work{};
    if (lane == 0) work = ld_shared<PartTile>(smem + SharedMemory::work + round % 2 * sizeof(PartTile));
    return PartTile{shfl_idx(work.kv_start, 0), shfl_idx(work.head_kv, 0), shfl_idx(work.batch, 0),
                    shfl_idx(work.part, 0)};
  };

  if (tid_x() == 0) {
    mbarrier_init(kv_full, 1), mbarrier_init(kv_empty, WARPS + 2);
    for (int stage = 0; stage < STAGES; ++stage) {
      mbarrier_init(q_full + stage * 8, 1), mbarrier_init(do_full + stage * 8, 1);
      mbarrier_init(q_empty + stage * 8, WARPS), mbarrier_init(do_empty + stage * 8, WARPS);
    }
    fence_mbarrier_init();  // TMA sees the initialized barriers ...
  }
  bar_sync();  // ... and so does every thread

  // producer: load K and V of every tile, then Q and dO of every step as buffers become empty
  if (warp >= WARPS) {
    setmaxnreg_dec<PRODUCER_REGISTERS>();
    if (warp == WARPS && elect_sync()) {
      Ring ring;
      auto next = [&] {  // back to 0 after the last block's last question
        const uint32_t last = persistent.total + persistent.blocks - 1;
        return PartTile::of(parts, atom_inc(static_cast<uint32_t*>(args.workspace), last));
      };
      PartTile work = next();
      for (int round = 0;; ++round) {
        auto load_keys = [&] {
          wait(kv_empty, round % 2 ^ 1);  // passes immediately in the first round
          st_shared(smem + SharedMemory::work + round % 2 * sizeof(PartTile), work);
          if (work.is_none()) return;
          mbarrier_arrive_expect_tx(kv_full, 2 * KV_BYTES);
          load_tile<BLOCK_N>(k_smem, params.k, work.kv_start, work.head_kv, work.batch, kv_full);
          load_tile<BLOCK_N>(v_smem, params.v, work.kv_start, work.head_kv, work.batch, kv_full);
        };
        PartTiles tiles(parts, work);
        if (round == 0 || work.is_none() || tiles.steps == 0) load_keys();
        if (work.is_none()) break;
        for (int step = 0; step < tiles.steps; ++step, tiles.advance(), ring.advance()) {
          const Head head(args, work.batch, tiles.head);
          const int stage = ring.stage, row = tiles.tile * BLOCK_M;
          wait(q_empty + stage * 8, ring.phase ^ 1);  // passes immediately in the first round
          load_queries(q_smem + stage * Q_BYTES, params.q, lse_smem + stage * NUMBERS_BYTES, head.lse_log2(args), row,
                       tiles.head, work.batch, q_full + stage * 8);
          wait(do_empty + stage * 8, ring.phase ^ 1);
          load_queries(do_smem + stage * Q_BYTES, params.d_o, dots_smem + stage * NUMBERS_BYTES, head.dots(args), row,
                       tiles.head, work.batch, do_full + stage * 8);
          if (step == 0 && round > 0) load_keys();
        }
        work = next();
      }
      mbarrier_arrive(kv_full);  // no tile is left
    }
    // Two other warps add dQ of one warpgroup each.
    if (const int part = warp - WARPS - 1; part >= 0 && part < 2) {
      for (int round = 0;; ++round) {
        wait(kv_full, round % 2);
        const PartTile work = work_of_round(round);
        if (work.is_none()) break;
        if (lane == 0) mbarrier_arrive(kv_empty);  // the place is read
        PartTiles tiles(parts, work);
        const bool is_first = parts.stores && work.kv_start == 0, is_later = parts.stores && !is_first;
        auto turn = [&] { return turn_of(parts.turns, args, work.batch, tiles.head, tiles.tile, part); };
        uint32_t added = 0;
        for (int step = 0; step < tiles.steps; ++step) {
          if (step > 0 || round > 0) bar_arrive(DQ_TAKEN + part, DQ_THREADS);
          bar_sync(DQ_COMPLETE + part, DQ_THREADS);
          if (lane == 0) {
            uint32_t* const own = turn();
            const uint32_t last = adders(args, tiles.tile) - 1;  // the counter is back to 0 after it
            const Head head(args, work.batch, tiles.head);
            float* const sums = head.dq_sums(args) + (tiles.tile * 2 + part) * (DQ_BYTES / 4);
            tiles.advance();  // only this lane's
            while (is_later && added == 0) added = ld_acquire(own);
            if (is_later) fence_proxy_async();
            if (is_first)
              cp_async_bulk_store(sums, dq_smem + part * DQ_BYTES, DQ_BYTES);
            else
              cp_reduce_async_bulk_add(sums, dq_smem + part * DQ_BYTES, DQ_BYTES);
            cp_async_bulk_commit_group();
            if (is_first) {
              cp_async_bulk_wait_group<0>();
              red_release_inc(own, last);
            } else {
              if (is_later && step + 1 < tiles.steps) added = ld_acquire(turn());
              cp_async_bulk_wait_group_read<0>();
              if (is_later) atom_inc(own, last);
            }
          }
          bar_warp_sync();
        }
      }
      if (lane == 0) cp_async_bulk_wait_group<0>();
    }
    return;
  }
  setmaxnreg_inc<CONSUMER_REGISTERS>();

  const uint64_t k_operand = k_major(k_smem, warpgroup * GROUP_KEYS),
                 v_operand = k_major(v_smem, warpgroup * GROUP_KEYS);
  const uint64_t k_columns = mn_major<BLOCK_N>(k_smem, 0, warpgroup * DQ_ROWS);
  // A missing key's score is minus infinity once it is multiplied, with any scale; 0 would make NaN of it.
  const float scale_log2 = args.scale == 0.f ? 1e-30f : args.scale * LOG2_E;
  Ring ring;
  for (int round = 0;; ++round) {
    wait(kv_full, round % 2);
    const PartTile work = work_of_round(round);
    if (work.is_none()) return;
    const int first_key = work.kv_start + warpgroup * GROUP_KEYS;  // of the warpgroup
    PartTiles tiles(parts, work);
    float dk_regs[HEAD_DIM / 2] = {}, dv_regs[HEAD_DIM / 2] = {};
    for (int step = 0; step < tiles.steps; ++step) {
      const int stage = ring.stage, buffer = stage * Q_BYTES;
      const uint32_t lse = lse_smem + stage * NUMBERS_BYTES + quad * 8,
                     dots = dots_smem + stage * NUMBERS_BYTES + quad * 8;

      // S^T = K Q^T, dP^T = V dO^T
      float s_regs[BLOCK_M / 2], dp_regs[BLOCK_M / 2];
      const uint64_t q_operand = k_major(q_smem + buffer), do_operand = k_major(do_smem + buffer);
      wait(q_full + stage * 8, ring.phase);
      register_fence(s_regs), register_fence(dp_regs);
      wgmma_fence();
#pragma unroll
      for (int d = 0; d < HEAD_DIM; d += MMA_K)
        wgmma_mma_async_ss<Element, BLOCK_M>(s_regs, k_operand + k_major_columns<BLOCK_N>(d),
                                             q_operand + k_major_columns<BLOCK_M>(d), d != 0);
      wgmma_commit_group();
      wait(do_full + stage * 8, ring.phase);
#pragma unroll
      for (int d = 0; d < HEAD_DIM; d += MMA_K)
        wgmma_mma_async_ss<Element, BLOCK_M>(dp_regs, v_operand + k_major_columns<BLOCK_N>(d),
                                             do_operand + k_major_columns<BLOCK_M>(d), d != 0);
      wgmma_commit_group();
      wgmma_wait_group<1>();
      register_fence(s_regs);

      // P = exp2(S - LSE), dV += P^T dO, dS = P (dP - D), dK += dS^T Q: of 48 queries, then of the others
      uint32_t p_regs[BLOCK_M / MMA_K][4], ds_regs[BLOCK_M / MMA_K][4];
      const uint64_t q_rows = mn_major<BLOCK_M>(q_smem + buffer), do_rows = mn_major<BLOCK_M>(do_smem + buffer);
      exponentials<0, EARLY>(s_regs, lse, scale_log2);
      // Missing keys: their P is 0, and scores that are to come are minus infinity. The compiler moves no exponential
      // across this branch, so that those above run under dP.
      if (first_key + GROUP_KEYS > args.seq_kv) {
        const float missing = scale_log2 < 0.f ? INFINITY_F32 : -INFINITY_F32;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          if (first_key + warp_row + group + half * 8 < args.seq_kv) continue;
#pragma unroll
          for (int n = half * 2; n < BLOCK_M / 2; n += 4) s_regs[n] = s_regs[n + 1] = n < EARLY / 2 ? 0.f : missing;
        }
      }
      wgmma_wait_group<0>();
      register_fence(dp_regs), register_fence(dv_regs), register_fence(dk_regs);
      // 16 queries at a time: P in 16 bits takes registers that P and dP of those before have left.
      issue_dv<0, 16>(dv_regs, p_regs, ds_regs, s_regs, dp_regs, do_rows, dots);
      issue_dv<16, 32>(dv_regs, p_regs, ds_regs, s_regs, dp_regs, do_rows, dots);
      issue_dv<32, EARLY>(dv_regs, p_regs, ds_regs, s_regs, dp_regs, do_rows, dots);
      issue<0, EARLY>(dk_regs, ds_regs, q_rows);
      register_fence(s_regs);  // the other exponentials stay behind the products
      exponentials<EARLY, BLOCK_M>(s_regs, lse, scale_log2);
      issue_dv<EARLY, BLOCK_M>(dv_regs, p_regs, ds_regs, s_regs, dp_regs, do_rows, dots);
      const uint32_t ds_buffer = ds_smem + step % 2 * SCORE_BYTES;
      store_transposed<BLOCK_M>(ds_buffer + warpgroup * (BLOCK_M * ROW_BYTES), warp_row, ds_regs);
      fence_proxy_async_shared();
      bar_sync(DS_COMPLETE, CONSUMERS);  // dS of both warpgroups is complete

      // Products of the first 48 queries have ended by now. The compiler must know: dQ needs the registers of their P.
      wgmma_wait_group<1>();
      fence_scores<0, EARLY>(p_regs);

      // dQ^T = K^T dS^T, and dK of the others
      float dq_regs[BLOCK_M / 2];
      const uint64_t ds_operand = k_major(ds_buffer);
      register_fence(dq_regs);
      wgmma_fence();
#pragma unroll
      for (int n = 0; n < BLOCK_N; n += MMA_K)
        wgmma_mma_async_ss_transposed_80<Element>(dq_regs, k_columns + mn_major_rows(n),
                                                  ds_operand + k_major_columns<BLOCK_M>(n), n != 0);
      wgmma_commit_group();
      issue<EARLY, BLOCK_M>(dk_regs, ds_regs, q_rows);
      wgmma_wait_group<1>();
      register_fence(dv_regs), fence_scores<EARLY, BLOCK_M>(p_regs), register_fence(dq_regs);
      if (lane == 0) {
        mbarrier_arrive(do_empty + stage * 8);
        if (step + 1 == tiles.steps) mbarrier_arrive(kv_empty);
      }

      // dQ goes to the warp that reduces
      if (step > 0 || round > 0) bar_sync(DQ_TAKEN + warpgroup, DQ_THREADS);
#pragma unroll
      for (int n = 0; n < BLOCK_M / 2; n += 4)
        st_shared(dq_smem + warpgroup * DQ_BYTES + (n / 4 * WARPGROUP + tid_x() % WARPGROUP) * 16,
                  make_float4(dq_regs[n], dq_regs[n + 1], dq_regs[n + 2], dq_regs[n + 3]));
      fence_proxy_async_shared();
      bar_arrive(DQ_COMPLETE + warpgroup, DQ_THREADS);

      wgmma_wait_group<0>();
      register_fence(dk_regs), register_fence(ds_regs);
      if (lane == 0) mbarrier_arrive(q_empty + stage * 8);
      ring.advance();
    }

    if (lane == 0 && tiles.steps == 0) mbarrier_arrive(kv_empty);  // a part may have nothing to do

    // epilogue: the tile's place is read again, because no register holds it through the loop
    const PartTile own = work_of_round(round);
    if (own.part >= 0 && !merge_part(parts, own.part, dk_regs, dv_regs)) continue;
    const int key = own.kv_start + warp * 16 + group;
    const Head kv_head(args, own.batch, own.head_kv * (args.heads / args.heads_kv));
    store_keys_wide(args, kv_head.dk(args), args.dk_stride.seq, key, args.scale, dk_regs);
    store_keys_wide(args, kv_head.dv(args), args.dv_stride.seq, key, 1.f, dv_regs);
  }
}

// At most two tiles for each multiprocessor in a section, but one head at least.
Error pair(PersistentParams& params) {
  const AttentionBackwardArgs& args = params.tma.args;
  int multiprocessors;
  if (const Error error = multiprocessor_count(multiprocessors)) return error;
  const int heads = 2 * multiprocessors / params.key_tiles;
  if (args.heads > args.heads_kv && params.section > heads) params.section = heads > 1 ? heads : 1;
  return Error{};
}

}  // namespace

EXPORT int shared_memory_bytes() { return SharedMemory::bytes; }

EXPORT int workspace_bytes(const AttentionBackwardArgs* args) { return static_cast<int>(part_workspace_bytes(*args)); }

EXPORT int launch(const AttentionBackwardArgs* args, void* stream) {
  PartParams params{{{*args}}};
  if (const Error error = plan(params)) return error;
  if (const Error error = pair(params.persistent)) return error;
  if (const Error error = launch_row_sums(*args, !params.stores, stream)) return error;
  const Grid grid{params.persistent.blocks, 1, 1};
  if (const Error error = launch_kernel<eighty_rows>(grid, THREADS, SharedMemory::bytes, stream, params)) return error;
  return launch_convert_transposed_dq(*args, stream);
}
