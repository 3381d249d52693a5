// cp.async: V loads during Q K^T, the next K loads during P V, and neither passes through registers.
// Builds on large_tile (xor_swizzle); changes how K and V reach shared memory, and when.
//
// K and V have one buffer each. An iteration finds K in its buffer, starts the load of V, computes Q K^T, waits for V,
// starts the load of the next K into K's buffer, and computes P V. One group of copies is in flight at any time.
#include <attention/attention.cuh>
#include <ptx/barrier.cuh>
#include <ptx/cp_async.cuh>
#include <ptx/ld_st.cuh>
#include <ptx/ldmatrix.cuh>
#include <ptx/math.cuh>
#include <ptx/mma.cuh>
#include <ptx/shfl.cuh>

namespace {

constexpr int THREADS = WARPS * WARP_SIZE;
constexpr int MMA_M = 16, MMA_N = 8, MMA_K = 16;
constexpr int S_TILES = BLOCK_N / MMA_N;   // mma tiles along the keys
constexpr int O_TILES = HEAD_DIM / MMA_N;  // mma tiles along head_dim
static_assert(BLOCK_M == WARPS * MMA_M, "each warp owns 16 query rows");
static_assert(BLOCK_N % MMA_K == 0 && HEAD_DIM % MMA_K == 0);
static_assert(STAGES == 1, "one buffer for K, one for V");

constexpr int ROW_BYTES = HEAD_DIM * ELEMENT_BYTES;

struct SharedMemory {
  static constexpr int q = 0;
  static constexpr int k = q + BLOCK_M * ROW_BYTES;
  static constexpr int v = k + BLOCK_N * ROW_BYTES;
  static constexpr int bytes = v + BLOCK_N * ROW_BYTES;
};

// Address of an element in a tile of Q, K or V: its 16-byte column is XORed with the row.
DEVICE uint32_t tile_address(uint32_t smem, int row, int col) {
  return smem + row * ROW_BYTES + ((col * ELEMENT_BYTES) ^ ((row & 7) * 16));
}
// Moves an address by `row` rows (a multiple of 8) and `col` columns (a multiple of 16 bytes, without a carry).
DEVICE uint32_t advance(uint32_t address, int row, int col) {
  return (address ^ (col * ELEMENT_BYTES)) + row * ROW_BYTES;
}
static_assert(ROW_BYTES % 128 == 0, "the XOR permutes within 128 bytes");

// Reduces over the four lanes that share a row.
DEVICE float quad_reduce_max(float x) {
  x = max_f32(x, shfl_bfly(x, 1));
  return max_f32(x, shfl_bfly(x, 2));
}
DEVICE float quad_reduce_sum(float x) {
  x += shfl_bfly(x, 1);
  return x + shfl_bfly(x, 2);
}

template <int TILE_ROWS>
DEVICE void load_tile(uint32_t smem, const Element* gmem, int64_t row_stride) {
  constexpr int CHUNK = 16 / ELEMENT_BYTES;           // elements per 16-byte access
  constexpr int ROWS = THREADS / (HEAD_DIM / CHUNK);  // rows that the block copies per pass
  static_assert(TILE_ROWS % ROWS == 0);
  const int row = tid_x() / (HEAD_DIM / CHUNK), col = tid_x() % (HEAD_DIM / CHUNK) * CHUNK;
  gmem += static_cast<int>(row * row_stride + col);  // offsets within a head fit in 32 bits
#pragma unroll
  for (int i = 0; i < TILE_ROWS / ROWS; ++i, gmem += ROWS * row_stride)
    cp_async_cg_16(tile_address(smem, row + i * ROWS, col), gmem);
  cp_async_commit_group();
}

KERNEL(THREADS, 1) cp_async_pipeline(const AttentionArgs args) {
  const BlockTile tile(args, ctaid_y(), ctaid_x(), ctaid_z());  // consecutive blocks share no K and V
  const uint32_t smem = shared_base();
  const uint32_t q_smem = smem + SharedMemory::q;
  const uint32_t k_smem = smem + SharedMemory::k;
  const uint32_t v_smem = smem + SharedMemory::v;
  const int warp = shfl_idx(tid_x() / WARP_SIZE, 0), lane = tid_x() % WARP_SIZE;
  const int warp_row = warp * MMA_M;

  // The row address that this lane passes to ldmatrix for the first fragment of each operand.
  uint32_t q_lane = tile_address(q_smem, warp_row + lane % 16, lane / 16 * 8);
  uint32_t k_lane = tile_address(k_smem, lane % 8, lane / 8 % 2 * 8);
  uint32_t v_lane = tile_address(v_smem, lane % 16, 0);
  // In an mma fragment this lane holds rows group and group + 8, columns 2 * quad and 2 * quad + 1.
  const int group = lane / 4, quad = lane % 4;

  float o_regs[O_TILES][4] = {};
  float row_max[2] = {-INFINITY_F32, -INFINITY_F32}, row_sum[2] = {};

  const int keys = tile.visible_keys(args);

  // load Q, then the first K
  load_tile<BLOCK_M>(q_smem, tile.q(args), args.q_stride.seq);
  if (keys > 0) load_tile<BLOCK_N>(k_smem, tile.k(args), args.k_stride.seq);

  for (int kv_start = 0; kv_start < keys; kv_start += BLOCK_N) {
    // Without the fences the compiler precomputes every address below and keeps each in a register of its own.
    register_fence(q_lane), register_fence(k_lane), register_fence(v_lane);
    cp_async_wait_group<0>();
    bar_sync();  // K (and Q) has arrived; every warp is done with the previous V
    load_tile<BLOCK_N>(v_smem, tile.v(args) + kv_start * args.v_stride.seq, args.v_stride.seq);

    // S = Q K^T
    float s_regs[S_TILES][4] = {};
#pragma unroll
    for (int d = 0; d < HEAD_DIM; d += MMA_K) {
      uint32_t q_regs[4];
      ldmatrix_x4(q_regs, advance(q_lane, 0, d));
#pragma unroll
      for (int n = 0; n < S_TILES; ++n) {
        uint32_t k_regs[2];
        ldmatrix_x2(k_regs, advance(k_lane, n * MMA_N, d));
        mma_m16n8k16<Element>(s_regs[n], q_regs, k_regs);
      }
    }
#pragma unroll
    for (int n = 0; n < S_TILES; ++n)
      for (int i = 0; i < 4; ++i) s_regs[n][i] *= args.scale;
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
      new_max = max_f32(row_max[half], quad_reduce_max(new_max));
      // A row without a visible key has maximum -inf: subtract 0 instead, because -inf - (-inf) would be NaN.
      const float new_base = new_max == -INFINITY_F32 ? 0.f : new_max;
      const float rescale = ex2_approx_ftz((row_max[half] - new_base) * LOG2_E);
      row_max[half] = new_max;
#pragma unroll
      for (int n = 0; n < S_TILES; ++n) {
        for (int i = half * 2; i < half * 2 + 2; ++i) {
          s_regs[n][i] = ex2_approx_ftz((s_regs[n][i] - new_base) * LOG2_E);
          tile_sum += s_regs[n][i];
        }
      }
      row_sum[half] = row_sum[half] * rescale + quad_reduce_sum(tile_sum);
#pragma unroll
      for (int d = 0; d < O_TILES; ++d) o_regs[d][half * 2] *= rescale, o_regs[d][half * 2 + 1] *= rescale;
    }

    cp_async_wait_group<0>();
    bar_sync();  // V has arrived; every warp is done with K
    if (kv_start + BLOCK_N < keys)
      load_tile<BLOCK_N>(k_smem, tile.k(args) + (kv_start + BLOCK_N) * args.k_stride.seq, args.k_stride.seq);

    // O += P V
#pragma unroll
    for (int n = 0; n < S_TILES; n += 2) {
      uint32_t p_regs[4];
      for (int i = 0; i < 4; ++i)
        p_regs[i] = cvt_pack<Element>(s_regs[n + i / 2][i % 2 * 2], s_regs[n + i / 2][i % 2 * 2 + 1]);
#pragma unroll
      for (int d = 0; d < O_TILES; ++d) {
        uint32_t v_regs[2];
        ldmatrix_x2_trans(v_regs, advance(v_lane, n * MMA_N, d * MMA_N));
        mma_m16n8k16<Element>(o_regs[d], p_regs, v_regs);
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
                row_sum[half] == 0.f ? -INFINITY_F32 : row_max[half] + lg2_approx_ftz(row_sum[half]) * LN_2);
  }
}

}  // namespace

EXPORT int shared_memory_bytes() { return SharedMemory::bytes; }

EXPORT int launch(const AttentionArgs* args, void* stream) {
  const Grid grid{args->heads, args->batch, args->seq_q / BLOCK_M};
  return launch_kernel<cp_async_pipeline>(grid, THREADS, SharedMemory::bytes, stream, *args);
}
