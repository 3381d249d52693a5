// Each thread decides by itself whether it rescales its part of O, without a vote.
// Builds on flagship; changes when O is rescaled. At head_dim 64 it is rescaled in every step, as in the parent.
//
// One block per multiprocessor takes tile after tile from a counter. One producer warp loads Q, K and V; two or three
// consumer warpgroups take turns issuing the next Q K^T together with the previous P V, and each stops at its own
// diagonal; one without a query in its rows multiplies nothing. They stage O in shared memory, from where a separate
// warp stores it by TMA, so that no part of storing a tile is left in their loop. With a causal mask the shortest tiles
// of all heads come last. The tile shape of a problem is looked up by head_dim, mask and class of length, in the table
// that `twinkernels tune` fills.
#include <attention/attention.cuh>
#include <ptx/barrier.cuh>
#include <ptx/math.cuh>
#include <ptx/mbarrier.cuh>
#include <ptx/setmaxnreg.cuh>
#include <ptx/shfl.cuh>
#include <ptx/wgmma.cuh>
#include <attention/persistent_pipeline.cuh>
#include <attention/persistent_tiles.cuh>
#include <attention/rescale.cuh>
#include <attention/row_maxima.cuh>
#include <attention/warpgroup_tiles.cuh>

// No vote: threads of a warp may go different ways, and meet again behind the multiplies.
struct WhenOwnOutgrown {
  static constexpr float SLACK = WhenOutgrown::SLACK;
  DEVICE static void multiply(float (&o_regs)[HEAD_DIM / 2], const float (&rescale)[2]) {
    if (rescale[0] == 1.f && rescale[1] == 1.f) return;
    EachStep::multiply(o_regs, rescale);
  }
};

// What pays off: head_dim -> when O is rescaled, and how a row's maximum is found.
#if ATTENTION_HEAD_DIM == 64
#include <attention/schedules/rescale_behind_products.cuh>
using Rescale = EachStep;
using Maxima = IntegerMaxima;
#elif ATTENTION_HEAD_DIM == 128
#include <attention/schedules/rescale_between_products.cuh>
using Rescale = WhenOwnOutgrown;
using Maxima = IntegerMaxima;
#else
#include <attention/schedules/rescale_behind_products.cuh>
using Rescale = WhenOwnOutgrown;
using Maxima = FloatMaxima;
#endif

namespace {

constexpr float LOWEST = -3.0e38f;  // finite: a row whose scores so far are all -inf never computes -inf - (-inf)

static_assert(ceil_div(BLOCK_M - WARPGROUP_ROWS, BLOCK_N) <= STAGES + 1, "K is skipped while the last V is held");

KERNEL(THREADS, 1) thread_rescale(GRID_CONSTANT const PersistentParams params) {
  const AttentionArgs& args = params.tma.args;
  const Pipeline pipeline(shared_base());
  const int warp = shfl_idx(tid_x() / WARP_SIZE, 0), lane = tid_x() % WARP_SIZE;
  const int warpgroup = warp / WARPGROUP_WARPS;
  // In an accumulator this lane holds rows group and group + 8 of its warp's 16, columns 2 * quad and 2 * quad + 1.
  const int group = lane / 4, quad = lane % 4;
  const int warp_row = warp * 16;

  if (tid_x() == 0) pipeline.init();
  bar_sync();  // every thread sees the initialized barriers

  // producer: one warp loads Q, then K of every iteration and V of the one before; another stores O
  if (warp >= WARPS) {
    setmaxnreg_dec<PRODUCER_REGISTERS>();
    if (warp == WARPS && elect_sync()) pipeline.load(params);
    if (warp == WARPS + 1) pipeline.store(params);
    return;
  }
  setmaxnreg_inc<CONSUMER_REGISTERS>();

  const float scale_log2 = args.scale * LOG2_E;
  float o_regs[HEAD_DIM / 2];
  float row_max[2], row_sum[2];  // exponentials are relative to row_max, which may lag behind the true maximum by SLACK
  float rescale[2];              // factor by which O is still to be multiplied
  int last_key[2];
  int whole_tiles, own_tiles;  // key tiles of this warpgroup: those that need no mask, and all of them
  uint64_t q_operand;
  float s_regs[BLOCK_N / 2];
  uint32_t p_regs[BLOCK_N / MMA_K][4];
  TileQueue queue(pipeline.queue);
  RingOf<Q_BUFFERS> q_ring;
  Ring k_ring, v_ring;  // V lags K by one iteration
  // Named barriers from 1 on say whose turn it is; warpgroup 0 goes first.
  constexpr int TURN = 2 * WARPGROUP;  // a waiting and an arriving warpgroup
  const int my_turn = 1 + warpgroup, next_turn = 1 + (warpgroup + 1) % WARPGROUPS;

  auto pass = [&](uint32_t full, uint32_t empty, Ring& ring) {  // releases a buffer unread
    wait(full + ring.stage * 8, ring.phase);
    if (lane == 0) mbarrier_arrive(empty + ring.stage * 8);
    ring.advance();
  };
  auto issue_qk = [&] {  // S = Q K^T
    const uint64_t k_operand = k_major(pipeline.k + k_ring.stage * KV_BYTES);
    register_fence(s_regs);
    wgmma_fence();
#pragma unroll
    for (int d = 0; d < HEAD_DIM; d += MMA_K)
      wgmma_mma_async_ss<Element, BLOCK_N>(s_regs, q_operand + k_major_columns<BLOCK_M>(d),
                                           k_operand + k_major_columns<BLOCK_N>(d), d != 0);
    wgmma_commit_group();
  };
  auto issue_pv = [&] {  // O += P V
    const uint64_t v_operand = mn_major<BLOCK_N>(pipeline.v + v_ring.stage * KV_BYTES);
    register_fence(o_regs), register_fence(p_regs);
    wgmma_fence();
#pragma unroll
    for (int n = 0; n < BLOCK_N / MMA_K; ++n)
      wgmma_mma_async_rs<Element, HEAD_DIM, true>(o_regs, p_regs[n], v_operand + mn_major_rows(n * MMA_K), 1);
    wgmma_commit_group();
  };
  // Leaves the exponentials in S and the factor for O in `rescale`; releases K.
  auto online_softmax = [&]<bool MASKED>(int j) {
    if (MASKED && j >= whole_tiles) {
#pragma unroll
      for (int i = 0; i < BLOCK_N / 2; ++i)
        if (i / 4 * 8 + i % 2 > last_key[i / 2 % 2] - j * BLOCK_N - quad * 2) s_regs[i] = -INFINITY_F32;
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float new_max = Maxima::find(s_regs, half);
      new_max = max_f32(row_max[half], quad_reduce_max(new_max) * scale_log2);
      if (Rescale::SLACK > 0.f && !(new_max > row_max[half] + Rescale::SLACK)) new_max = row_max[half];
      rescale[half] = ex2_approx_ftz(row_max[half] - new_max);
      row_max[half] = new_max;
    }
    const bool ordered = row_max[0] == row_max[0] && row_max[1] == row_max[1];  // always true: max_f32 returns no NaN
    if (lane == 0 && ordered) mbarrier_arrive(pipeline.k_empty + k_ring.stage * 8);
    if (O_IN_V && lane == 0 && ordered && j == own_tiles - 1) mbarrier_arrive(pipeline.q_empty + q_ring.stage * 8);
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
    wait(pipeline.k_full + k_ring.stage * 8, k_ring.phase);
    if (!MASKED) bar_sync(my_turn, TURN);
    issue_qk();
    between_products<Rescale>(o_regs, rescale);
    wait(pipeline.v_full + v_ring.stage * 8, v_ring.phase);
    issue_pv();
    if (!MASKED) bar_arrive(next_turn, TURN);
    wgmma_wait_group<1>();  // wait for S; P V may still be in flight
    register_fence(s_regs);
    online_softmax.template operator()<MASKED>(j);
    wgmma_wait_group<0>();  // P V has finished: O is valid and P may be overwritten
    register_fence(o_regs), register_fence(p_regs);
    if (lane == 0) mbarrier_arrive(pipeline.v_empty + v_ring.stage * 8);
    convert_p();
    behind_products<Rescale>(o_regs, rescale);
    v_ring.advance();
  };

  if (warpgroup == WARPGROUPS - 1) bar_arrive(next_turn, TURN);
  for (TilePlace place = queue.take(); place.q_tile >= 0; place = queue.take()) {
    const BlockTile tile(args, place.batch, place.head, place.q_tile);
    const int key_tiles = key_tiles_of(args, tile);
    const int common_tiles = tile.unmasked_keys(args) / BLOCK_N;  // key tiles that need no mask in any warpgroup
    // A warpgroup without a query hands on its turns and buffers.
    if (warpgroup * WARPGROUP_ROWS >= args.seq_q - tile.q_start) {
      wait(pipeline.q_full + q_ring.stage * 8, q_ring.phase);  // a phase that goes by would fool its next wait
      for (int j = 0; j < key_tiles; ++j) {
        if (j > 0 && j < common_tiles) bar_sync(my_turn, TURN), bar_arrive(next_turn, TURN);
        pass(pipeline.k_full, pipeline.k_empty, k_ring);
        pass(pipeline.v_full, pipeline.v_empty, v_ring);
      }
      pipeline.stage_nothing(q_ring.stage);
      q_ring.advance();
      continue;
    }
    // The rows of this warpgroup; like the block, it works on at least one key tile.
    const int first_row = warpgroup * WARPGROUP_ROWS, last_row = first_row + WARPGROUP_ROWS - 1;
    own_tiles = tile.last_key(args, last_row) < 0 ? 1 : tile.last_key(args, last_row) / BLOCK_N + 1;
    whole_tiles = (tile.last_key(args, first_row) + 1) / BLOCK_N;
    for (int d = 0; d < HEAD_DIM / 2; ++d) o_regs[d] = 0.f;
    for (int half = 0; half < 2; ++half) {
      row_max[half] = LOWEST, row_sum[half] = 0.f;
      last_key[half] = tile.last_key(args, warp_row + group + half * 8);
    }

    // prologue: the first Q K^T overlaps with no P V
    q_operand = k_major(pipeline.q + q_ring.stage * Q_BYTES + warpgroup * WARPGROUP_ROWS * ROW_BYTES);
    wait(pipeline.q_full + q_ring.stage * 8, q_ring.phase);
    wait(pipeline.k_full + k_ring.stage * 8, k_ring.phase);
    issue_qk();
    wgmma_wait_group<0>();
    register_fence(s_regs);
    online_softmax.template operator()<true>(0);
    rescale[0] = rescale[1] = 1.f;  // O is still zero
    convert_p();

    int j = 1;
    for (; j < common_tiles; ++j) step.template operator()<false>(j);
    for (; j < own_tiles; ++j) step.template operator()<true>(j);

    // the last P V overlaps with no Q K^T
    between_products<Rescale>(o_regs, rescale);
    wait(pipeline.v_full + v_ring.stage * 8, v_ring.phase);
    issue_pv();
    for (int skipped = own_tiles; skipped < key_tiles; ++skipped) pass(pipeline.k_full, pipeline.k_empty, k_ring);
    wgmma_wait_group<0>();
    register_fence(o_regs);
    if (lane == 0) mbarrier_arrive(pipeline.v_empty + v_ring.stage * 8);
    v_ring.advance();
    for (int skipped = own_tiles; skipped < key_tiles; ++skipped) pass(pipeline.v_full, pipeline.v_empty, v_ring);

    // epilogue
    pipeline.stage_o(tile, args, q_ring.stage, v_ring, o_regs, row_max, row_sum);
    q_ring.advance();
  }
}

}  // namespace

EXPORT int shared_memory_bytes() { return Pipeline::BYTES; }

EXPORT int workspace_bytes(const AttentionArgs*) { return TileNumbers::COUNTER_BYTES; }

EXPORT int launch(const AttentionArgs* args, void* stream) {
  PersistentParams params{{*args}};
  if (const Error error = encode_all(params)) return error;
  return launch_kernel<thread_rescale>({params.blocks, 1, 1}, THREADS, Pipeline::BYTES, stream, params);
}
