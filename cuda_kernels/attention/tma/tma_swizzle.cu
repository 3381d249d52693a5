// The 128-byte hardware swizzle: TMA permutes the 16-byte columns as it writes, and ldmatrix follows the permutation.
// Builds on tma_loads; changes the shared-memory layout of a tile: slabs of 64 columns, XORed with the row.
//
// The swizzle spans 128 bytes, so a tile of head_dim 128 is two boxes of 64 columns, one after the other. Address bits
// 4 to 6 are XORed with bits 7 to 9, which are row % 8 in a slab that starts at a multiple of 1024 bytes: the same
// permutation as in ampere/xor_swizzle, at no cost to the threads.
#include <attention/attention.cuh>
#include <ptx/barrier.cuh>
#include <ptx/fence.cuh>
#include <ptx/ld_st.cuh>
#include <ptx/ldmatrix.cuh>
#include <ptx/math.cuh>
#include <ptx/mbarrier.cuh>
#include <ptx/mma.cuh>
#include <ptx/shfl.cuh>
#include <ptx/tma.cuh>
#include <attention/tma_params.cuh>

namespace {

constexpr int THREADS = WARPS * WARP_SIZE;
constexpr int MMA_M = 16, MMA_N = 8, MMA_K = 16;
constexpr int S_TILES = BLOCK_N / MMA_N;   // mma tiles along the keys
constexpr int O_TILES = HEAD_DIM / MMA_N;  // mma tiles along head_dim
static_assert(BLOCK_M == WARPS * MMA_M, "each warp owns 16 query rows");
static_assert(BLOCK_N % MMA_K == 0 && HEAD_DIM % MMA_K == 0);
static_assert(STAGES == 1, "one buffer for K, one for V");

constexpr int SLAB = 64;  // columns spanned by the 128-byte swizzle
constexpr int SLABS = HEAD_DIM / SLAB;
constexpr int ROW_BYTES = SLAB * ELEMENT_BYTES;
constexpr int Q_BYTES = BLOCK_M * SLABS * ROW_BYTES, KV_BYTES = BLOCK_N * SLABS * ROW_BYTES;
static_assert(HEAD_DIM % SLAB == 0 && ROW_BYTES == 128);
static_assert(Q_BYTES % 1024 == 0 && KV_BYTES % 1024 == 0, "the pattern repeats every 1024 bytes");

struct SharedMemory {
  static constexpr int q = 0;
  static constexpr int k = q + Q_BYTES;
  static constexpr int v = k + KV_BYTES;
  static constexpr int q_full = v + KV_BYTES;
  static constexpr int k_full = q_full + 8;
  static constexpr int v_full = k_full + 8;
  static constexpr int bytes = v_full + 8;
};

// Address of an element in a tile of ROWS rows: slab by slab, its 16-byte column XORed with the row.
template <int ROWS>
DEVICE uint32_t tile_address(uint32_t smem, int row, int col) {
  return smem + col / SLAB * (ROWS * ROW_BYTES) + row * ROW_BYTES + ((col % SLAB * ELEMENT_BYTES) ^ ((row & 7) * 16));
}
// Moves an address by `row` rows (a multiple of 8) and `col` columns (a multiple of 16 bytes, without a carry).
template <int ROWS>
DEVICE uint32_t advance(uint32_t address, int row, int col) {
  return (address ^ (col % SLAB * ELEMENT_BYTES)) + row * ROW_BYTES + col / SLAB * (ROWS * ROW_BYTES);
}

// Reduces over the four lanes that share a row.
DEVICE float quad_reduce_max(float x) {
  x = max_f32(x, shfl_bfly(x, 1));
  return max_f32(x, shfl_bfly(x, 2));
}
DEVICE float quad_reduce_sum(float x) {
  x += shfl_bfly(x, 1);
  return x + shfl_bfly(x, 2);
}

// One thread loads TILE_ROWS rows of a head, from `row` on; their bytes complete on `full`.
template <int TILE_ROWS>
DEVICE void load_tile(uint32_t smem, const TensorMap& map, int row, int head, int batch, uint32_t full) {
  mbarrier_arrive_expect_tx(full, TILE_ROWS * SLABS * ROW_BYTES);
#pragma unroll
  for (int slab = 0; slab < SLABS; ++slab)
    cp_async_bulk_tensor_load<4>(smem + slab * (TILE_ROWS * ROW_BYTES), map, {slab * SLAB, row, head, batch}, full);
}

KERNEL(THREADS, 1) tma_swizzle(GRID_CONSTANT const TmaParams params) {
  const AttentionArgs& args = params.args;
  const BlockTile tile(args, ctaid_y(), ctaid_x(), ctaid_z());  // consecutive blocks share no K and V
  const uint32_t smem = shared_base();
  const uint32_t q_smem = smem + SharedMemory::q;
  const uint32_t k_smem = smem + SharedMemory::k;
  const uint32_t v_smem = smem + SharedMemory::v;
  const uint32_t q_full = smem + SharedMemory::q_full;
  const uint32_t k_full = smem + SharedMemory::k_full, v_full = smem + SharedMemory::v_full;
  const int warp = shfl_idx(tid_x() / WARP_SIZE, 0), lane = tid_x() % WARP_SIZE;
  const int warp_row = warp * MMA_M;

  // The row address that this lane passes to ldmatrix for the first fragment of each operand.
  uint32_t q_lane = tile_address<BLOCK_M>(q_smem, warp_row + lane % 16, lane / 16 * 8);
  uint32_t k_lane = tile_address<BLOCK_N>(k_smem, lane % 8 + lane / 16 * 8, lane / 8 % 2 * 8);
  uint32_t v_lane = tile_address<BLOCK_N>(v_smem, lane % 16, lane / 16 * 8);
  // In an mma fragment this lane holds rows group and group + 8, columns 2 * quad and 2 * quad + 1.
  const int group = lane / 4, quad = lane % 4;

  const float scale_log2 = args.scale * LOG2_E;
  float o_regs[O_TILES][4] = {};
  float row_max[2] = {-INFINITY_F32, -INFINITY_F32}, row_sum[2] = {};

  const int key_tiles = ceil_div(tile.visible_keys(args), BLOCK_N);

  if (tid_x() == 0) {
    mbarrier_init(q_full, 1), mbarrier_init(k_full, 1), mbarrier_init(v_full, 1);
    fence_mbarrier_init();
  }
  bar_sync();  // every thread sees the initialized barriers

  // load Q, then the first K
  if (tid_x() == 0 && key_tiles > 0) {
    load_tile<BLOCK_M>(q_smem, params.q, tile.q_start, tile.head, tile.batch, q_full);
    load_tile<BLOCK_N>(k_smem, params.k, 0, tile.head_kv, tile.batch, k_full);
  }
  if (key_tiles > 0) wait(q_full, 0);

  for (int j = 0; j < key_tiles; ++j) {
    const int kv_start = j * BLOCK_N;
    // Without the fences the compiler precomputes every address below and keeps each in a register of its own.
    register_fence(q_lane), register_fence(k_lane), register_fence(v_lane);
    wait(k_full, j % 2);
    // TMA writes through another proxy: without the fence it may overwrite what ldmatrix is still reading.
    fence_proxy_async_shared();
    bar_sync();  // every warp is done with the previous V
    if (tid_x() == 0) load_tile<BLOCK_N>(v_smem, params.v, kv_start, tile.head_kv, tile.batch, v_full);

    // S = Q K^T
    float s_regs[S_TILES][4] = {};
#pragma unroll
    for (int d = 0; d < HEAD_DIM; d += MMA_K) {
      uint32_t q_regs[4];
      ldmatrix_x4(q_regs, advance<BLOCK_M>(q_lane, 0, d));
#pragma unroll
      for (int n = 0; n < S_TILES; n += 2) {
        uint32_t k_regs[4];
        ldmatrix_x4(k_regs, advance<BLOCK_N>(k_lane, n * MMA_N, d));
        mma_m16n8k16<Element>(s_regs[n], q_regs, k_regs);
        mma_m16n8k16<Element>(s_regs[n + 1], q_regs, k_regs + 2);
      }
    }
    if (tile.crosses_diagonal(args, kv_start)) {
#pragma unroll
      for (int n = 0; n < S_TILES; ++n)
        for (int i = 0; i < 4; ++i)
          if (!tile.sees(args, warp_row + group + i / 2 * 8, kv_start + n * MMA_N + quad * 2 + i % 2))
            s_regs[n][i] = -INFINITY_F32;
    }

    // online softmax
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float new_max = -INFINITY_F32, tile_sum = 0.f;
#pragma unroll
      for (int n = 0; n < S_TILES; ++n)
        new_max = max_f32(new_max, max_f32(s_regs[n][half * 2], s_regs[n][half * 2 + 1]));
      new_max = max_f32(row_max[half], quad_reduce_max(new_max) * scale_log2);
      // A row without a visible key has maximum -inf: subtract 0 instead, because -inf - (-inf) would be NaN.
      const float new_base = new_max == -INFINITY_F32 ? 0.f : new_max;
      const float rescale = ex2_approx_ftz(row_max[half] - new_base);
      row_max[half] = new_max;
#pragma unroll
      for (int n = 0; n < S_TILES; ++n) {
        for (int i = half * 2; i < half * 2 + 2; ++i) {
          s_regs[n][i] = ex2_approx_ftz(s_regs[n][i] * scale_log2 - new_base);
          tile_sum += s_regs[n][i];
        }
      }
      row_sum[half] = row_sum[half] * rescale + quad_reduce_sum(tile_sum);
#pragma unroll
      for (int d = 0; d < O_TILES; ++d) o_regs[d][half * 2] *= rescale, o_regs[d][half * 2 + 1] *= rescale;
    }

    wait(v_full, j % 2);
    // TMA writes through another proxy: without the fence it may overwrite what ldmatrix is still reading.
    fence_proxy_async_shared();
    bar_sync();  // every warp is done with K
    if (tid_x() == 0 && j + 1 < key_tiles)
      load_tile<BLOCK_N>(k_smem, params.k, kv_start + BLOCK_N, tile.head_kv, tile.batch, k_full);

    // O += P V
#pragma unroll
    for (int n = 0; n < S_TILES; n += 2) {
      uint32_t p_regs[4];
      for (int i = 0; i < 4; ++i)
        p_regs[i] = cvt_pack<Element>(s_regs[n + i / 2][i % 2 * 2], s_regs[n + i / 2][i % 2 * 2 + 1]);
#pragma unroll
      for (int d = 0; d < O_TILES; d += 2) {
        uint32_t v_regs[4];
        ldmatrix_x4_trans(v_regs, advance<BLOCK_N>(v_lane, n * MMA_N, d * MMA_N));
        mma_m16n8k16<Element>(o_regs[d], p_regs, v_regs);
        mma_m16n8k16<Element>(o_regs[d + 1], p_regs, v_regs + 2);
      }
    }
  }

  // epilogue
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = warp_row + group + half * 8;
    const float inverse = row_sum[half] == 0.f ? 0.f : rcp_approx_ftz(row_sum[half]);
    Element* o = tile.o(args) + row * args.o_stride.seq;
#pragma unroll
    for (int d = 0; d < O_TILES; ++d)
      st_global(o + d * MMA_N + quad * 2,
                cvt_pack<Element>(o_regs[d][half * 2] * inverse, o_regs[d][half * 2 + 1] * inverse));
    if (quad == 0)
      st_global(tile.lse(args) + row,
                row_sum[half] == 0.f ? -INFINITY_F32 : (row_max[half] + lg2_approx_ftz(row_sum[half])) * LN_2);
  }
}

}  // namespace

EXPORT int shared_memory_bytes() { return SharedMemory::bytes; }

EXPORT int launch(const AttentionArgs* args, void* stream) {
  TmaParams params{*args};
  if (const Error error = encode(params, SLAB, Swizzle::bytes_128)) return error;
  const Grid grid{args->heads, args->batch, args->seq_q / BLOCK_M};
  return launch_kernel<tma_swizzle>(grid, THREADS, SharedMemory::bytes, stream, params);
}
