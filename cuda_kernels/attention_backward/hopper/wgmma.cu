// Warpgroup products: each of two warpgroups has 64 keys, and multiplies 64 rows by them straight from shared memory.
// Builds on vector_atomics; changes the instruction of all products. Supports any lengths and strides; heads that share
// K and V are summed in the loop.
//
// Scores still have a row for each query, and P and dS are stored transposed: wgmma then reads them as left operands of
// dV and dK, whose rows are keys. dS stays in registers too, as the left operand of dQ. A warpgroup's dQ is the sum
// over its own 64 keys, so the warpgroups need not exchange dS, and add to dQ twice as often as one tile needs. Fences:
// wgmma reads shared memory through the asynchronous proxy, so whoever copied Q, dO, K and V or stored P and dS
// executes fence.proxy.async before the barrier that publishes them. wgmma.fence comes before products that use
// registers which ordinary instructions wrote: cleared or added accumulators, dS.
#include <attention_backward/attention_backward.cuh>
#include <ptx/barrier.cuh>
#include <ptx/cp_async.cuh>
#include <ptx/fence.cuh>
#include <ptx/ld_st.cuh>
#include <ptx/math.cuh>
#include <ptx/shfl.cuh>
#include <ptx/wgmma.cuh>
#include <attention_backward/row_sums.cuh>
#include <attention_backward/warpgroup_tiles.cuh>

namespace {

constexpr int THREADS = WARPS * WARP_SIZE;
constexpr int GROUP_KEYS = WARPGROUP_ROWS;  // of a warpgroup
static_assert(BLOCK_M == WARPGROUP_ROWS, "each warpgroup multiplies all queries of a tile by its own keys");
static_assert(STAGES == 2, "the next tile is loaded while this one is multiplied");

constexpr int SCORE_BYTES = BLOCK_M * BLOCK_N * ELEMENT_BYTES;  // of P or dS of all warpgroups

struct SharedMemory {
  static constexpr int k = 0;
  static constexpr int v = k + KV_BYTES;
  static constexpr int q = v + KV_BYTES;
  static constexpr int d_o = q + STAGES * Q_BYTES;
  static constexpr int p = d_o + STAGES * Q_BYTES;
  static constexpr int ds = p + SCORE_BYTES;
  static constexpr int bytes = ds + SCORE_BYTES;
};

// The block copies a tile of TILE_ROWS rows; rows from `valid_rows` on are filled with zeros.
template <int TILE_ROWS>
DEVICE void load_tile(uint32_t smem, const Element* gmem, int64_t row_stride, int valid_rows) {
  constexpr int PASS = THREADS / ROW_LANES;  // rows that the block copies at a time
  static_assert(TILE_ROWS % PASS == 0);
  const int row = tid_x() / ROW_LANES, col = tid_x() % ROW_LANES * CHUNK;
  gmem += row * row_stride + col;
#pragma unroll
  for (int i = 0; i < TILE_ROWS / PASS; ++i, gmem += PASS * row_stride)
    cp_async_cg_16_zfill(slab_address<TILE_ROWS>(smem, row + i * PASS, col), gmem,
                         row + i * PASS < valid_rows ? 16 : 0);
}

// One block: dK and dV of BLOCK_N keys of a head of K and V, and what these keys add to dQ.
KERNEL(THREADS, 1) wgmma(const AttentionBackwardArgs args) {
  const uint32_t smem = shared_base();
  const uint32_t k_smem = smem + SharedMemory::k, v_smem = smem + SharedMemory::v;
  const uint32_t q_smem = smem + SharedMemory::q, do_smem = smem + SharedMemory::d_o;
  const int warp = shfl_idx(tid_x() / WARP_SIZE, 0), lane = tid_x() % WARP_SIZE;
  const int warpgroup = warp / WARPGROUP_WARPS, warp_row = warp % WARPGROUP_WARPS * 16;
  // In an accumulator this lane holds rows group and group + 8 of its warp's 16, columns 2 * quad and 2 * quad + 1.
  const int group = lane / 4, quad = lane % 4;
  const uint32_t p_smem = smem + SharedMemory::p + warpgroup * (SCORE_BYTES * GROUP_KEYS / BLOCK_N);
  const uint32_t ds_smem = smem + SharedMemory::ds + warpgroup * (SCORE_BYTES * GROUP_KEYS / BLOCK_N);

  const int kv_start = ctaid_x() * BLOCK_N, heads_per_kv = args.heads / args.heads_kv;
  const int first_key = kv_start + warpgroup * GROUP_KEYS;  // of the warpgroup
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

  const uint64_t k_operand = k_major(k_smem, warpgroup * GROUP_KEYS),
                 v_operand = k_major(v_smem, warpgroup * GROUP_KEYS);
  const uint64_t k_rows = mn_major<BLOCK_N>(k_smem, warpgroup * GROUP_KEYS);
  const uint64_t p_operand = k_major(p_smem), ds_operand = k_major(ds_smem);
  const float scale_log2 = args.scale * LOG2_E;
  float dk_regs[HEAD_DIM / 2] = {}, dv_regs[HEAD_DIM / 2] = {};
  for (int step = 0; step < steps; ++step) {
    const Head head(args, kv_head.batch, kv_head.head + step / q_tiles);
    const int q_start = (q_begin + step % q_tiles) * BLOCK_M, buffer = step % 2 * Q_BYTES;
    float lse[2], dot[2];
    for (int half = 0; half < 2; ++half) {
      lse[half] = ld_global<float>(head.lse_log2(args) + q_start + warp_row + group + half * 8);
      dot[half] = ld_global<float>(head.dots(args) + q_start + warp_row + group + half * 8);
    }
    cp_async_wait_group<0>();
    fence_proxy_async_shared();
    bar_sync();  // Q and dO have arrived; every warp is done with the previous step
    if (step + 1 < steps) load_queries(step + 1);

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
    add_rows<HEAD_DIM>(head.dq_sums(args) + (q_start + warp_row + group) * HEAD_DIM, dq_regs);
  }

  // epilogue
  const int key = first_key + warp_row + group;
  store_keys(args, kv_head.dk(args), args.dk_stride.seq, key, args.scale, dk_regs);
  store_keys(args, kv_head.dv(args), args.dv_stride.seq, key, 1.f, dv_regs);
}

}  // namespace

EXPORT int shared_memory_bytes() { return SharedMemory::bytes; }

EXPORT int launch(const AttentionBackwardArgs* args, void* stream) {
  if (const Error error = launch_row_sums(*args, true, stream)) return error;
  const Grid grid{ceil_div(args->seq_kv, BLOCK_N), args->heads_kv, args->batch};
  if (const Error error = launch_kernel<wgmma>(grid, THREADS, SharedMemory::bytes, stream, *args)) return error;
  return launch_convert_dq(*args, stream);
}
