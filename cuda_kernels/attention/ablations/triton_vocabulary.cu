// A kernel that does only what core Triton can express: blocks of four or eight warps that all do the same work, sizes
// that are powers of two, and a wait for both products before the softmax. Builds on wgmma, without its ring of
// mbarriers. Supports any lengths, and strides aligned to 16 bytes.
//
// With one stage, K and V take turns in one buffer, as in core Triton, and three blocks of four warps share a
// multiprocessor, four at head_dim 64: one block's softmax overlaps with another's products. With more stages, each has
// buffers of its own, and O += P V is still in flight when the next iteration starts. One thread requests the next tile
// as soon as the block has released a buffer. Keys are processed from last to first, so that the masked ones come
// first. The softmax is written row by row, so that the maxima of one overlap with the exponentials of the other.
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

constexpr float LOWEST = -3.0e38f;  // finite: a row that has seen no key yet never computes -inf - (-inf)
constexpr int THREADS = WARPS * WARP_SIZE;
constexpr int BLOCKS = WARPS == 8 ? 1 : STAGES > 1 ? 2 : HEAD_DIM == 64 ? 4 : 3;  // per multiprocessor, at least
constexpr int BUFFERS = STAGES == 1 ? 1 : 2 * STAGES;  // used in turn by K and V of all iterations
static_assert(BLOCK_M * WARPGROUP == WARPGROUP_ROWS * THREADS, "each warpgroup owns 64 query rows");
static_assert((BLOCK_N & (BLOCK_N - 1)) == 0 && (WARPS & (WARPS - 1)) == 0, "powers of two");
static_assert(BLOCK_N % MMA_K == 0 && BLOCK_N <= 256);

struct SharedMemory {
  static constexpr int q = 0;
  static constexpr int kv = q + Q_BYTES;
  static constexpr int q_full = kv + BUFFERS * KV_BYTES;
  static constexpr int kv_full = q_full + 8;
  static constexpr int bytes = kv_full + BUFFERS * 8;
};
static_assert(SharedMemory::kv % 1024 == 0 && KV_BYTES % 1024 == 0, "the swizzle pattern starts at each buffer");

KERNEL(THREADS, BLOCKS) triton_vocabulary(GRID_CONSTANT const TmaParams params) {
  const AttentionArgs& args = params.args;
  const LongestFirst order(args, ctaid_x());
  const BlockTile tile(args, order.batch, order.head, order.q_tile);
  const uint32_t smem = shared_base();
  const uint32_t q_smem = smem + SharedMemory::q;
  uint32_t kv_smem = smem + SharedMemory::kv;
  const uint32_t q_full = smem + SharedMemory::q_full, kv_full = smem + SharedMemory::kv_full;
  const int warp = shfl_idx(tid_x() / WARP_SIZE, 0), lane = tid_x() % WARP_SIZE;
  const int warpgroup = warp / WARPGROUP_WARPS;
  // In an accumulator this lane holds rows group and group + 8 of its warp's 16, columns 2 * quad and 2 * quad + 1.
  const int group = lane / 4, quad = lane % 4;
  const int warp_row = warp * 16;

  const float scale_log2 = args.scale * LOG2_E;
  float o_regs[HEAD_DIM / 2] = {};
  float row_max[2] = {LOWEST, LOWEST}, row_sum[2] = {};

  const int key_tiles = ceil_div(tile.visible_keys(args), BLOCK_N);
  const int whole_tiles = tile.unmasked_keys(args) / BLOCK_N;  // key tiles that need no mask
  const int last_key[2] = {tile.last_key(args, warp_row + group), tile.last_key(args, warp_row + group + 8)};
  const int q_rows = args.seq_q - tile.q_start;

  if (tid_x() == 0) {
    mbarrier_init(q_full, 1);
    for (int i = 0; i < BUFFERS; ++i) mbarrier_init(kv_full + i * 8, 1);
    fence_mbarrier_init();
  }
  bar_sync();  // every thread sees the initialized barriers

  // Called by the elected thread: tile 2 * step is the K of a step, tile 2 * step + 1 its V, if there is such a step.
  auto load = [&](uint32_t tile_number) {
    const int step = tile_number / 2, buffer = tile_number % BUFFERS;
    if (step < key_tiles)
      load_tile<BLOCK_N>(kv_smem + buffer * KV_BYTES, tile_number % 2 ? params.v : params.k,
                         (key_tiles - 1 - step) * BLOCK_N, tile.head_kv, tile.batch, kv_full + buffer * 8);
  };
  auto is_there = [&](uint32_t tile_number) {  // waits for the tile; returns its address
    const int buffer = tile_number % BUFFERS;
    wait(kv_full + buffer * 8, tile_number / BUFFERS % 2);
    return kv_smem + buffer * KV_BYTES;
  };

  // load Q, then the first tiles of K and V
  if (key_tiles > 0 && warp == 0 && elect_sync()) {
    load_tile<BLOCK_M>(q_smem, params.q, tile.q_start, tile.head, tile.batch, q_full);
    for (int i = 0; i < BUFFERS; ++i) load(i);
  }
  if (key_tiles > 0) wait(q_full, 0);

  const uint64_t q_operand = k_major(q_smem + warpgroup * WARPGROUP_ROWS * ROW_BYTES);
  uint32_t p_regs[BLOCK_N / MMA_K][4];
  auto attend = [&]<bool MASKED>(int step) {
    // S = Q K^T
    register_fence(kv_smem);  // no descriptor is kept over an iteration: there are too few uniform registers
    const uint64_t k_operand = k_major(is_there(2 * step));
    float s_regs[BLOCK_N / 2];  // local to one iteration: not live during P V
    register_fence(s_regs);
    wgmma_fence();
#pragma unroll
    for (int d = 0; d < HEAD_DIM; d += MMA_K)
      wgmma_mma_async_ss<Element, BLOCK_N>(s_regs, q_operand + k_major_columns<BLOCK_M>(d),
                                           k_operand + k_major_columns<BLOCK_N>(d), d != 0);
    wgmma_commit_group();
    wgmma_wait_group<0>();  // also waits for the previous P V
    register_fence(s_regs);
    if (BUFFERS > 1) register_fence(o_regs), register_fence(p_regs);
    bar_sync();  // every warp is done with this K and the previous V
    if (warp == 0 && elect_sync()) {
      if (BUFFERS > 1 && step > 0) load(2 * step - 1 + BUFFERS);
      load(2 * step + BUFFERS);
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
      for (int n = half * 2 + 4; n < BLOCK_N / 2; n += 4) new_max = max_f32(max_f32(new_max, s_regs[n]), s_regs[n + 1]);
      new_max = max_f32(row_max[half], quad_reduce_max(new_max) * scale_log2);
      const float rescale = ex2_approx_ftz(row_max[half] - new_max);
      row_max[half] = new_max;
      row_sum[half] *= rescale;
#pragma unroll
      for (int n = half; n < BLOCK_N / 4; n += 2) {
        float p[2];
        for (int column = 0; column < 2; ++column) {
          p[column] = ex2_approx_ftz(s_regs[n * 2 + column] * scale_log2 - new_max);
          row_sum[half] += p[column];
        }
        p_regs[n / 4][n % 4] = cvt_pack<Element>(p[0], p[1]);
      }
#pragma unroll
      for (int d = half * 2; d < HEAD_DIM / 2; d += 4) o_regs[d] *= rescale, o_regs[d + 1] *= rescale;
    }

    // O += P V
    const uint64_t v_operand = mn_major<BLOCK_N>(is_there(2 * step + 1));
    register_fence(o_regs), register_fence(p_regs);
    wgmma_fence();
#pragma unroll
    for (int n = 0; n < BLOCK_N / MMA_K; ++n)
      wgmma_mma_async_rs<Element, HEAD_DIM, true>(o_regs, p_regs[n], v_operand + mn_major_rows(n * MMA_K), 1);
    wgmma_commit_group();
    if (BUFFERS == 1) {
      wgmma_wait_group<0>();
      register_fence(o_regs), register_fence(p_regs);
      bar_sync();  // every warp is done with V
      if (warp == 0 && elect_sync()) load(2 * step + 2);
    }
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
  return launch_kernel<triton_vocabulary>(grid, THREADS, SharedMemory::bytes, stream, params);
}
