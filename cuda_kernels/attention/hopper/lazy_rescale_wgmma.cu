// O is rescaled only when an exponential relative to the old row maximum would exceed 4, which soon becomes rare.
// Builds on persistent, with the softmax of tma/lazy_rescale; changes the online softmax. Supports any lengths, and
// strides aligned to 16 bytes.
//
// The exponentials of a row may be relative to any value near its maximum, as long as the sum is relative to the same
// value. Rescaling O can cost tensor-core time: beside a stream of multiplies wgmma is slow (hopper_roofs.py). The vote
// that avoids it is a branch, which ptxas puts at the end of the iteration, after all exponentials. The slack is 2^2: O
// of a row that one key dominates errs by up to 2/3 of a rounding; with 2^8 by up to one, which the gate rejects.
#include <attention/attention.cuh>
#include <ptx/barrier.cuh>
#include <ptx/fence.cuh>
#include <ptx/ld_st.cuh>
#include <ptx/math.cuh>
#include <ptx/mbarrier.cuh>
#include <ptx/setmaxnreg.cuh>
#include <ptx/shfl.cuh>
#include <ptx/vote.cuh>
#include <ptx/wgmma.cuh>
#include <attention/persistent_tiles.cuh>
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
static_assert(STAGES >= 2, "the next tile is loaded while this one is multiplied");
constexpr float LOWEST = -3.0e38f;  // finite: a row whose scores so far are all -inf never computes -inf - (-inf)

constexpr float SLACK = 2.f;  // in log2 units: how far a row's maximum may outgrow the one in use
// Two buffers if they fit, next to the rings of K and V, into the 227 KB of a block.
constexpr int Q_BUFFERS = 2 * Q_BYTES + 2 * STAGES * KV_BYTES + 1024 <= 227 * 1024 ? 2 : 1;

struct SharedMemory {
  static constexpr int q = 0;
  static constexpr int k = q + Q_BUFFERS * Q_BYTES;
  static constexpr int v = k + STAGES * KV_BYTES;
  static constexpr int queue = v + STAGES * KV_BYTES;
  static constexpr int q_full = queue + TileQueue::BYTES;
  static constexpr int q_empty = q_full + Q_BUFFERS * 8;
  static constexpr int k_full = q_empty + Q_BUFFERS * 8;
  static constexpr int v_full = k_full + STAGES * 8;
  static constexpr int k_empty = v_full + STAGES * 8;
  static constexpr int v_empty = k_empty + STAGES * 8;
  static constexpr int bytes = v_empty + STAGES * 8;
};
static_assert(SharedMemory::k % 1024 == 0 && KV_BYTES % 1024 == 0, "the swizzle pattern starts at each buffer");

KERNEL(THREADS, 1) lazy_rescale_wgmma(GRID_CONSTANT const PersistentParams params) {
  const AttentionArgs& args = params.tma.args;
  const uint32_t smem = shared_base();
  const uint32_t q_smem = smem + SharedMemory::q;
  const uint32_t k_smem = smem + SharedMemory::k;
  const uint32_t v_smem = smem + SharedMemory::v;
  const uint32_t q_full = smem + SharedMemory::q_full, q_empty = smem + SharedMemory::q_empty;
  const uint32_t k_full = smem + SharedMemory::k_full, v_full = smem + SharedMemory::v_full;
  const uint32_t k_empty = smem + SharedMemory::k_empty, v_empty = smem + SharedMemory::v_empty;
  const int warp = shfl_idx(tid_x() / WARP_SIZE, 0), lane = tid_x() % WARP_SIZE;
  const int warpgroup = warp / WARPGROUP_WARPS;
  // In an accumulator this lane holds rows group and group + 8 of its warp's 16, columns 2 * quad and 2 * quad + 1.
  const int group = lane / 4, quad = lane % 4;
  const int warp_row = warp * 16;

  TileQueue queue(smem + SharedMemory::queue);

  if (tid_x() == 0) {
    queue.init(WARPS);
    for (int i = 0; i < Q_BUFFERS; ++i) mbarrier_init(q_full + i * 8, 1), mbarrier_init(q_empty + i * 8, WARPS);
    for (int stage = 0; stage < STAGES; ++stage) {
      mbarrier_init(k_full + stage * 8, 1), mbarrier_init(v_full + stage * 8, 1);
      mbarrier_init(k_empty + stage * 8, WARPS), mbarrier_init(v_empty + stage * 8, WARPS);
    }
    fence_mbarrier_init();
  }
  bar_sync();  // every thread sees the initialized barriers

  // producer: load Q, then K of every iteration and V of the one before, as buffers become empty
  if (warp >= WARPS) {
    setmaxnreg_dec<PRODUCER_REGISTERS>();
    if (warp == WARPS && elect_sync()) {
      RingOf<Q_BUFFERS> q_ring;
      Ring k_ring, v_ring;  // all buffers start empty: the first wait on each passes immediately
      for (TileNumbers numbers{ctaid_x()};;) {
        const TilePlace place = TilePlace::of(params, numbers.tile);
        queue.put(place);
        if (place.q_tile < 0) break;
        const BlockTile tile(args, place.batch, place.head, place.q_tile);
        const int key_tiles = key_tiles_of(args, tile);
        wait(q_empty + q_ring.stage * 8, q_ring.phase ^ 1);
        load_tile<BLOCK_M>(q_smem + q_ring.stage * Q_BYTES, params.tma.q, tile.q_start, tile.head, tile.batch,
                           q_full + q_ring.stage * 8);
        q_ring.advance();
        for (int j = 0; j <= key_tiles; ++j) {
          if (j < key_tiles) {
            wait(k_empty + k_ring.stage * 8, k_ring.phase ^ 1);
            load_tile<BLOCK_N>(k_smem + k_ring.stage * KV_BYTES, params.tma.k, j * BLOCK_N, tile.head_kv, tile.batch,
                               k_full + k_ring.stage * 8);
            k_ring.advance();
          } else {
            numbers.advance(params);
          }
          if (j > 0) {
            wait(v_empty + v_ring.stage * 8, v_ring.phase ^ 1);
            load_tile<BLOCK_N>(v_smem + v_ring.stage * KV_BYTES, params.tma.v, (j - 1) * BLOCK_N, tile.head_kv,
                               tile.batch, v_full + v_ring.stage * 8);
            v_ring.advance();
          }
        }
      }
    }
    return;
  }
  setmaxnreg_inc<CONSUMER_REGISTERS>();

  const float scale_log2 = args.scale * LOG2_E;
  float o_regs[HEAD_DIM / 2];
  float row_max[2], row_sum[2];
  int last_key[2];
  int whole_tiles;  // key tiles that need no mask
  uint64_t q_operand;
  float s_regs[BLOCK_N / 2];
  uint32_t p_regs[BLOCK_N / MMA_K][4];
  RingOf<Q_BUFFERS> q_ring;
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
  // Exponentials are relative to row_max, which lags behind the true maximum by at most SLACK.
  // Leaves the exponentials in S and the factor for O in `rescale`; releases K.
  auto online_softmax = [&]<bool MASKED>(int j, float (&rescale)[2]) {
    if (MASKED && j >= whole_tiles) {
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
      if (!(new_max > row_max[half] + SLACK)) new_max = row_max[half];
      rescale[half] = ex2_approx_ftz(row_max[half] - new_max);
      row_max[half] = new_max;
    }
    const bool ordered = row_max[0] == row_max[0] && row_max[1] == row_max[1];  // always true: max_f32 returns no NaN
    if (lane == 0 && ordered) mbarrier_arrive(k_empty + k_ring.stage * 8);
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
    if (lane == 0) mbarrier_arrive(v_empty + v_ring.stage * 8);
    convert_p();
    if (vote_any(rescale[0] != 1.f || rescale[1] != 1.f)) {
#pragma unroll
      for (int d = 0; d < HEAD_DIM / 2; ++d) o_regs[d] *= rescale[d / 2 % 2];
    }
    v_ring.advance();
  };

  if (warpgroup == WARPGROUPS - 1) bar_arrive(next_turn, TURN);
  for (TilePlace place = queue.take(); place.q_tile >= 0; place = queue.take()) {
    const BlockTile tile(args, place.batch, place.head, place.q_tile);
    const int key_tiles = key_tiles_of(args, tile);
    whole_tiles = tile.unmasked_keys(args) / BLOCK_N;
    const int q_rows = args.seq_q - tile.q_start;
    for (int d = 0; d < HEAD_DIM / 2; ++d) o_regs[d] = 0.f;
    for (int half = 0; half < 2; ++half) {
      row_max[half] = LOWEST, row_sum[half] = 0.f;
      last_key[half] = tile.last_key(args, warp_row + group + half * 8);
    }

    // prologue: the first Q K^T overlaps with no P V
    q_operand = k_major(q_smem + q_ring.stage * Q_BYTES + warpgroup * WARPGROUP_ROWS * ROW_BYTES);
    wait(q_full + q_ring.stage * 8, q_ring.phase);
    wait(k_full + k_ring.stage * 8, k_ring.phase);
    issue_qk();
    wgmma_wait_group<0>();
    register_fence(s_regs);
    float rescale[2];  // ignored: O is still zero
    online_softmax.template operator()<true>(0, rescale);
    convert_p();

    int j = 1;
    for (; j < whole_tiles; ++j) step.template operator()<false>(j);
    for (; j < key_tiles; ++j) step.template operator()<true>(j);

    // the last P V overlaps with no Q K^T
    if (lane == 0) mbarrier_arrive(q_empty + q_ring.stage * 8);
    q_ring.advance();
    wait(v_full + v_ring.stage * 8, v_ring.phase);
    issue_pv();
    wgmma_wait_group<0>();
    register_fence(o_regs);
    if (lane == 0) mbarrier_arrive(v_empty + v_ring.stage * 8);
    v_ring.advance();

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
}

}  // namespace

EXPORT int shared_memory_bytes() { return SharedMemory::bytes; }

EXPORT int workspace_bytes(const AttentionArgs*) { return TileNumbers::COUNTER_BYTES; }

EXPORT int launch(const AttentionArgs* args, void* stream) {
  PersistentParams params{{*args}};
  if (const Error error = encode(params.tma, SLAB, Swizzle::bytes_128)) return error;
  if (const Error error = deal(params)) return error;
  return launch_kernel<lazy_rescale_wgmma>({params.blocks, 1, 1}, THREADS, SharedMemory::bytes, stream, params);
}
