// Tensor cores through PTX: mma.sync m16n8k16 fed by ldmatrix, with a known register layout.
// Builds on wmma; changes the fragments to ones whose rows are known, so that O can stay in registers.
//
// Q, K and V are stored row by row, not permuted: the eight rows of an 8x8 matrix are a multiple of 128 bytes apart, so
// every ldmatrix phase has 8-way bank conflicts. S still goes through shared memory, to half a warp per row, and P
// overwrites it in 16 bits, where ldmatrix reads it as the A operand of P V. The factor that rescales O also goes
// through shared memory, because the lanes that hold a row of O are not the lanes that know its maximum.
#include <attention/attention.cuh>
#include <ptx/barrier.cuh>
#include <ptx/ld_st.cuh>
#include <ptx/ldmatrix.cuh>
#include <ptx/math.cuh>
#include <ptx/mma.cuh>
#include <ptx/shfl.cuh>

namespace {

constexpr int THREADS = WARPS * WARP_SIZE;
constexpr int MMA_M = 16, MMA_N = 8, MMA_K = 16;
constexpr int S_TILES = BLOCK_N / MMA_N;          // mma tiles along the keys
constexpr int O_TILES = HEAD_DIM / MMA_N;         // mma tiles along head_dim
constexpr int THREADS_X = 16;                     // threads along the columns of S in the softmax
constexpr int THREADS_Y = WARP_SIZE / THREADS_X;  // threads along the rows of a warp
constexpr int ROWS = MMA_M / THREADS_Y;           // rows per thread
constexpr int COLS = BLOCK_N / THREADS_X;         // columns per thread, adjacent
static_assert(BLOCK_M == WARPS * MMA_M, "each warp owns 16 query rows");
static_assert(BLOCK_N % MMA_K == 0 && HEAD_DIM % MMA_K == 0);
static_assert(COLS == 2 || COLS == 4 || COLS == 8, "whole accesses move a thread's scores of a row");
static_assert(STAGES == 1, "one buffer for K, one for V");

constexpr int ROW_BYTES = HEAD_DIM * ELEMENT_BYTES;
constexpr int S_ROW_BYTES = BLOCK_N * 4;  // P overwrites the first half

struct SharedMemory {
  static constexpr int q = 0;
  static constexpr int k = q + BLOCK_M * ROW_BYTES;
  static constexpr int v = k + BLOCK_N * ROW_BYTES;
  static constexpr int s = v + BLOCK_N * ROW_BYTES;
  static constexpr int factor = s + BLOCK_M * S_ROW_BYTES;  // one float per query row
  static constexpr int bytes = factor + BLOCK_M * 4;
};

// The elements that one access moves.
template <class T, int N>
struct alignas(N * sizeof(T)) Vector {
  T x[N];
};

// Address of an element in a tile of Q, K or V.
DEVICE uint32_t tile_address(uint32_t smem, int row, int col) { return smem + row * ROW_BYTES + col * ELEMENT_BYTES; }
// Moves an address by `row` rows and `col` columns.
DEVICE uint32_t advance(uint32_t address, int row, int col) { return address + row * ROW_BYTES + col * ELEMENT_BYTES; }

template <int TILE_ROWS>
DEVICE void load_tile(uint32_t smem, const Element* gmem, int64_t row_stride) {
  constexpr int CHUNK = 16 / ELEMENT_BYTES;           // elements per 16-byte access
  constexpr int ROWS = THREADS / (HEAD_DIM / CHUNK);  // rows that the block copies per pass
  static_assert(TILE_ROWS % ROWS == 0);
  const int row = tid_x() / (HEAD_DIM / CHUNK), col = tid_x() % (HEAD_DIM / CHUNK) * CHUNK;
  gmem += static_cast<int>(row * row_stride + col);  // offsets within a head fit in 32 bits
#pragma unroll
  for (int i = 0; i < TILE_ROWS / ROWS; ++i, gmem += ROWS * row_stride)
    st_shared(tile_address(smem, row + i * ROWS, col), ld_global<uint4>(gmem));
}

// Reduces over the 16 threads, half a warp, that share a row.
DEVICE float row_reduce_max(float x) {
  for (int mask = THREADS_X / 2; mask > 0; mask /= 2) x = max_f32(x, shfl_bfly(x, mask));
  return x;
}
DEVICE float row_reduce_sum(float x) {
  for (int mask = THREADS_X / 2; mask > 0; mask /= 2) x += shfl_bfly(x, mask);
  return x;
}

KERNEL(THREADS, 1) mma_ldmatrix(const AttentionArgs args) {
  const BlockTile tile(args, ctaid_y(), ctaid_x(), ctaid_z());  // consecutive blocks share no K and V
  const uint32_t smem = shared_base();
  const uint32_t q_smem = smem + SharedMemory::q;
  const uint32_t k_smem = smem + SharedMemory::k;
  const uint32_t v_smem = smem + SharedMemory::v;
  const int warp = shfl_idx(tid_x() / WARP_SIZE, 0), lane = tid_x() % WARP_SIZE;
  const int warp_row = warp * MMA_M;
  const int ty = lane / THREADS_X, tx = lane % THREADS_X;
  const uint32_t s_smem = smem + SharedMemory::s + warp_row * S_ROW_BYTES;
  const uint32_t factor_smem = smem + SharedMemory::factor + warp_row * 4;

  // The row address that this lane passes to ldmatrix for the first fragment of each operand.
  uint32_t q_lane = tile_address(q_smem, warp_row + lane % 16, lane / 16 * 8);
  uint32_t k_lane = tile_address(k_smem, lane % 8, lane / 8 % 2 * 8);
  uint32_t v_lane = tile_address(v_smem, lane % 16, 0);
  // In an mma fragment this lane holds rows group and group + 8, columns 2 * quad and 2 * quad + 1.
  const int group = lane / 4, quad = lane % 4;

  float o_regs[O_TILES][4] = {};
  float row_max[ROWS], row_sum[ROWS];
  for (int i = 0; i < ROWS; ++i) row_max[i] = -INFINITY_F32, row_sum[i] = 0.f;

  // load Q
  load_tile<BLOCK_M>(q_smem, tile.q(args), args.q_stride.seq);

  const int keys = tile.visible_keys(args);
  for (int kv_start = 0; kv_start < keys; kv_start += BLOCK_N) {
    // Without the fences the compiler precomputes every address below and keeps each in a register of its own.
    register_fence(q_lane), register_fence(k_lane), register_fence(v_lane);
    bar_sync();  // every warp is done with the previous K and V
    load_tile<BLOCK_N>(k_smem, tile.k(args) + kv_start * args.k_stride.seq, args.k_stride.seq);
    load_tile<BLOCK_N>(v_smem, tile.v(args) + kv_start * args.v_stride.seq, args.v_stride.seq);
    bar_sync();  // K and V (and Q) are in shared memory

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
    for (int n = 0; n < S_TILES; ++n) {
      for (int half = 0; half < 2; ++half) {
        const int row = group + half * 8, col = n * MMA_N + quad * 2;
        st_shared(s_smem + row * S_ROW_BYTES + col * 4, make_float2(s_regs[n][half * 2], s_regs[n][half * 2 + 1]));
      }
    }
    bar_warp_sync();  // the warp's rows of S are complete
    float scores[ROWS][COLS];
    for (int i = 0; i < ROWS; ++i) {
      const auto s_row = ld_shared<Vector<float, COLS>>(s_smem + (ty + i * THREADS_Y) * S_ROW_BYTES + tx * COLS * 4);
      for (int c = 0; c < COLS; ++c) scores[i][c] = s_row.x[c] * args.scale;
    }
    bar_warp_sync();  // every lane has read S: P may overwrite it
    if (tile.crosses_diagonal(args, kv_start)) {
      for (int i = 0; i < ROWS; ++i)
        for (int c = 0; c < COLS; ++c)
          if (!tile.sees(args, warp_row + ty + i * THREADS_Y, kv_start + tx * COLS + c)) scores[i][c] = -INFINITY_F32;
    }

    // online softmax: P relative to the tile's own maximum, then a second multiply brings it to the new maximum
    for (int i = 0; i < ROWS; ++i) {
      float tile_max = -INFINITY_F32, tile_sum = 0.f;
      for (int c = 0; c < COLS; ++c) tile_max = max_f32(tile_max, scores[i][c]);
      tile_max = row_reduce_max(tile_max);
      // A row without a visible key has maximum -inf: subtract 0 instead, because -inf - (-inf) would be NaN.
      const float tile_base = tile_max == -INFINITY_F32 ? 0.f : tile_max;
      for (int c = 0; c < COLS; ++c) {
        scores[i][c] = ex2_approx_ftz((scores[i][c] - tile_base) * LOG2_E);
        tile_sum += scores[i][c];
      }
      tile_sum = row_reduce_sum(tile_sum);
      const float new_max = max_f32(row_max[i], tile_max);
      const float new_base = new_max == -INFINITY_F32 ? 0.f : new_max;
      const float rescale = ex2_approx_ftz((row_max[i] - new_base) * LOG2_E);
      const float tile_rescale = ex2_approx_ftz((tile_max - new_base) * LOG2_E);
      row_max[i] = new_max;
      row_sum[i] = row_sum[i] * rescale + tile_sum * tile_rescale;
      if (tx == 0) st_shared(factor_smem + (ty + i * THREADS_Y) * 4, rescale);
      Vector<Element, COLS> p_row;
      for (int c = 0; c < COLS; ++c) p_row.x[c] = cvt_rn<Element>(scores[i][c] * tile_rescale);
      st_shared(s_smem + (ty + i * THREADS_Y) * S_ROW_BYTES + tx * COLS * ELEMENT_BYTES, p_row);
    }
    bar_warp_sync();  // the warp's rows of P and their factors are complete

    // O += P V
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float rescale = ld_shared<float>(factor_smem + (group + half * 8) * 4);
#pragma unroll
      for (int d = 0; d < O_TILES; ++d) o_regs[d][half * 2] *= rescale, o_regs[d][half * 2 + 1] *= rescale;
    }
#pragma unroll
    for (int n = 0; n < S_TILES; n += 2) {
      uint32_t p_regs[4];
      ldmatrix_x4(p_regs, s_smem + lane % 16 * S_ROW_BYTES + (n * MMA_N + lane / 16 * 8) * ELEMENT_BYTES);
#pragma unroll
      for (int d = 0; d < O_TILES; ++d) {
        uint32_t v_regs[2];
        ldmatrix_x2_trans(v_regs, advance(v_lane, n * MMA_N, d * MMA_N));
        mma_m16n8k16<Element>(o_regs[d], p_regs, v_regs);
      }
    }
  }

  // epilogue
  bar_warp_sync();  // every lane has read the last factors
  for (int i = 0; i < ROWS; ++i) {
    const int row = ty + i * THREADS_Y;
    if (tx == 0) {
      st_shared(factor_smem + row * 4, row_sum[i] == 0.f ? 0.f : rcp_approx_ftz(row_sum[i]));
      st_global(tile.lse(args) + warp_row + row,
                row_sum[i] == 0.f ? -INFINITY_F32 : row_max[i] + lg2_approx_ftz(row_sum[i]) * LN_2);
    }
  }
  bar_warp_sync();  // the factors that normalize O are complete
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = warp_row + group + half * 8;
    const float inverse = ld_shared<float>(factor_smem + (group + half * 8) * 4);
    Element* o = tile.o(args) + row * args.o_stride.seq;
#pragma unroll
    for (int d = 0; d < O_TILES; ++d)
      st_global(o + d * MMA_N + quad * 2,
                cvt_pack<Element>(o_regs[d][half * 2] * inverse, o_regs[d][half * 2 + 1] * inverse));
  }
}

}  // namespace

EXPORT int shared_memory_bytes() { return SharedMemory::bytes; }

EXPORT int launch(const AttentionArgs* args, void* stream) {
  const Grid grid{args->heads, args->batch, args->seq_q / BLOCK_M};
  return launch_kernel<mma_ldmatrix>(grid, THREADS, SharedMemory::bytes, stream, *args);
}
