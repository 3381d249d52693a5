// Atomic additions of 16 bytes: a quarter of the instructions that dQ takes, and four times the bytes of each.
// Builds on one_kernel; changes the instruction that adds dQ, which needs sm_90. Supports any lengths and strides;
// heads that share K and V are summed in the loop.
//
// In an mma fragment a lane has two neighbours of a row and two of the row 8 below. Pairs of lanes exchange two of
// them, so that one has four neighbours of the upper row and the other one of the lower. Barriers are those of
// one_kernel, and `red` is relaxed as there.
#include <attention_backward/attention_backward.cuh>
#include <ptx/barrier.cuh>
#include <ptx/cp_async.cuh>
#include <ptx/ld_st.cuh>
#include <ptx/math.cuh>
#include <ptx/red.cuh>
#include <ptx/shfl.cuh>
#include <attention_backward/mma_tiles.cuh>
#include <attention_backward/row_sums.cuh>

namespace {

constexpr int ROW_WARPS = BLOCK_M / MMA_M;                  // warps beside each other along the queries
constexpr int WARP_KEYS = BLOCK_N / (WARPS / ROW_WARPS);    // keys of a warp's part of S
constexpr int DQ_COLUMNS = HEAD_DIM / (WARPS / ROW_WARPS);  // of a warp's part of dQ
static_assert(WARPS % ROW_WARPS == 0 && WARP_KEYS % 16 == 0);
static_assert(BLOCK_N == WARPS * MMA_M, "each warp has 16 rows of dK and dV");
static_assert(STAGES == 2, "the next tile is loaded while this one is multiplied");

constexpr int Q_BYTES = BLOCK_M * HEAD_DIM * ELEMENT_BYTES, KV_BYTES = BLOCK_N * HEAD_DIM * ELEMENT_BYTES;
constexpr int SCORE_BYTES = BLOCK_M * BLOCK_N * ELEMENT_BYTES;

struct SharedMemory {
  static constexpr int k = 0;
  static constexpr int v = k + KV_BYTES;
  static constexpr int q = v + KV_BYTES;
  static constexpr int d_o = q + STAGES * Q_BYTES;
  static constexpr int p = d_o + STAGES * Q_BYTES;
  static constexpr int ds = p + SCORE_BYTES;
  static constexpr int bytes = ds + SCORE_BYTES;
};

// One block: dK and dV of BLOCK_N keys of a head of K and V, and what these keys add to dQ.
KERNEL(THREADS, 1) vector_atomics(const AttentionBackwardArgs args) {
  const uint32_t smem = shared_base();
  const uint32_t k_smem = smem + SharedMemory::k, v_smem = smem + SharedMemory::v;
  const uint32_t q_smem = smem + SharedMemory::q, do_smem = smem + SharedMemory::d_o;
  const uint32_t p_smem = smem + SharedMemory::p, ds_smem = smem + SharedMemory::ds;
  const int warp = shfl_idx(tid_x() / WARP_SIZE, 0), lane = tid_x() % WARP_SIZE;
  // In an mma fragment this lane holds rows group and group + 8, columns 2 * quad and 2 * quad + 1.
  const int group = lane / 4, quad = lane % 4;
  const int s_row = warp % ROW_WARPS * MMA_M, s_col = warp / ROW_WARPS * WARP_KEYS;  // of the warp's part of S
  const int dq_col = warp / ROW_WARPS * DQ_COLUMNS;

  const int kv_start = ctaid_x() * BLOCK_N, heads_per_kv = args.heads / args.heads_kv;
  const Head kv_head(args, ctaid_z(), ctaid_y() * heads_per_kv);
  const int q_begin = first_query(args, kv_start) / BLOCK_M;
  const int q_tiles = ceil_div(args.seq_q, BLOCK_M) - q_begin, steps = q_tiles * heads_per_kv;
  auto load_queries = [&](int step) {
    const Head head(args, kv_head.batch, kv_head.head + step / q_tiles);
    const int row = (q_begin + step % q_tiles) * BLOCK_M, buffer = step % 2 * Q_BYTES;
    load_tile<BLOCK_M>(q_smem + buffer, head.q(args) + row * args.q_stride.seq, args.q_stride.seq, args.seq_q - row);
    load_tile<BLOCK_M>(do_smem + buffer, head.d_o(args) + row * args.d_o_stride.seq, args.d_o_stride.seq,
                       args.seq_q - row);
    cp_async_commit_group();
  };
  load_tile<BLOCK_N>(k_smem, kv_head.k(args) + kv_start * args.k_stride.seq, args.k_stride.seq, args.seq_kv - kv_start);
  load_tile<BLOCK_N>(v_smem, kv_head.v(args) + kv_start * args.v_stride.seq, args.v_stride.seq, args.seq_kv - kv_start);
  load_queries(0);

  const float scale_log2 = args.scale * LOG2_E;
  float dk_regs[HEAD_DIM / MMA_N][4] = {}, dv_regs[HEAD_DIM / MMA_N][4] = {};
  for (int step = 0; step < steps; ++step) {
    const Head head(args, kv_head.batch, kv_head.head + step / q_tiles);
    const int q_start = (q_begin + step % q_tiles) * BLOCK_M, buffer = step % 2 * Q_BYTES;
    float lse[2], dot[2];
    for (int half = 0; half < 2; ++half) {
      lse[half] = ld_global<float>(head.lse_log2(args) + q_start + s_row + group + half * 8);
      dot[half] = ld_global<float>(head.dots(args) + q_start + s_row + group + half * 8);
    }
    cp_async_wait_group<0>();
    bar_sync();  // Q and dO have arrived; every warp is done with the previous step
    if (step + 1 < steps) load_queries(step + 1);

    // S = Q K^T, dP = dO V^T
    float s_regs[WARP_KEYS / MMA_N][4] = {}, dp_regs[WARP_KEYS / MMA_N][4] = {};
    multiply<HEAD_DIM, Sum::over_columns, HEAD_DIM, Sum::over_columns, HEAD_DIM>(
        s_regs, a_lane<Sum::over_columns, HEAD_DIM>(q_smem + buffer, s_row, 0),
        b_lane<Sum::over_columns, HEAD_DIM>(k_smem, s_col, 0));
    multiply<HEAD_DIM, Sum::over_columns, HEAD_DIM, Sum::over_columns, HEAD_DIM>(
        dp_regs, a_lane<Sum::over_columns, HEAD_DIM>(do_smem + buffer, s_row, 0),
        b_lane<Sum::over_columns, HEAD_DIM>(v_smem, s_col, 0));

    // P = exp2(S - LSE), dS = P (dP - D): 0 where the mask hides a key, or none exists
    const bool masks = kv_start + BLOCK_N - 1 > last_key(args, q_start);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = s_row + group + half * 8, visible = last_key(args, q_start + row) - kv_start;
#pragma unroll
      for (int n = 0; n < WARP_KEYS / MMA_N; ++n) {
        const int col = s_col + n * MMA_N + quad * 2;
        float p[2], ds[2];
        for (int i = 0; i < 2; ++i) {
          p[i] = ex2_approx_ftz(s_regs[n][half * 2 + i] * scale_log2 - lse[half]);
          if (masks && col + i > visible) p[i] = 0.f;
          ds[i] = p[i] * (dp_regs[n][half * 2 + i] - dot[half]);
        }
        st_shared(tile_address<BLOCK_N>(p_smem, row, col), cvt_pack<Element>(p[0], p[1]));
        st_shared(tile_address<BLOCK_N>(ds_smem, row, col), cvt_pack<Element>(ds[0], ds[1]));
      }
    }
    bar_sync();  // P and dS are complete

    // dV += P^T dO, dK += dS^T Q
    multiply<BLOCK_M, Sum::over_rows, BLOCK_N, Sum::over_rows, HEAD_DIM>(
        dv_regs, a_lane<Sum::over_rows, BLOCK_N>(p_smem, 0, warp * MMA_M),
        b_lane<Sum::over_rows, HEAD_DIM>(do_smem + buffer, 0, 0));
    multiply<BLOCK_M, Sum::over_rows, BLOCK_N, Sum::over_rows, HEAD_DIM>(
        dk_regs, a_lane<Sum::over_rows, BLOCK_N>(ds_smem, 0, warp * MMA_M),
        b_lane<Sum::over_rows, HEAD_DIM>(q_smem + buffer, 0, 0));

    // dQ += dS K
    float dq_regs[DQ_COLUMNS / MMA_N][4] = {};
    multiply<BLOCK_N, Sum::over_columns, BLOCK_N, Sum::over_rows, HEAD_DIM>(
        dq_regs, a_lane<Sum::over_columns, BLOCK_N>(ds_smem, s_row, 0),
        b_lane<Sum::over_rows, HEAD_DIM>(k_smem, 0, dq_col));
    const bool odd = lane % 2;
    float* sums = head.dq_sums(args) + (q_start + s_row + group + odd * 8) * HEAD_DIM + dq_col + quad / 2 * 4;
#pragma unroll
    for (int n = 0; n < DQ_COLUMNS / MMA_N; ++n) {
      const auto& mine = dq_regs[n];
      const float first = shfl_bfly(odd ? mine[0] : mine[2], 1), second = shfl_bfly(odd ? mine[1] : mine[3], 1);
      red_add_v4(sums + n * MMA_N,
                 odd ? make_float4(first, second, mine[2], mine[3]) : make_float4(mine[0], mine[1], first, second));
    }
  }

  // epilogue
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int key = kv_start + warp * MMA_M + group + half * 8;
    if (key >= args.seq_kv) continue;
    Element* dk = kv_head.dk(args) + key * args.dk_stride.seq + quad * 2;
    Element* dv = kv_head.dv(args) + key * args.dv_stride.seq + quad * 2;
#pragma unroll
    for (int d = 0; d < HEAD_DIM / MMA_N; ++d) {
      const float low = dk_regs[d][half * 2] * args.scale, high = dk_regs[d][half * 2 + 1] * args.scale;
      st_global(dk + d * MMA_N, cvt_pack<Element>(low, high));
      st_global(dv + d * MMA_N, cvt_pack<Element>(dv_regs[d][half * 2], dv_regs[d][half * 2 + 1]));
    }
  }
}

}  // namespace

EXPORT int shared_memory_bytes() { return SharedMemory::bytes; }

EXPORT int launch(const AttentionBackwardArgs* args, void* stream) {
  if (const Error error = launch_row_sums(*args, true, stream)) return error;
  const Grid grid{ceil_div(args->seq_kv, BLOCK_N), args->heads_kv, args->batch};
  if (const Error error = launch_kernel<vector_atomics>(grid, THREADS, SharedMemory::bytes, stream, *args))
    return error;
  return launch_convert_dq(*args, stream);
}
