// 16 bytes per access instead of 2 or 4: the same FMA work with a fifth of the loads.
// Builds on scalar; changes the width of global and shared accesses, and with it which columns of O a thread holds.
//
// Q, K and V are copied 8 elements at a time from global memory through registers to shared memory. For S, a thread
// reads 8 elements of a row of Q and of K at once. For O += P V it reads four of P, and of V the HEAD_DIM / 16 adjacent
// columns that it holds of O (8 bytes at head_dim 64). These columns of O leave in one store. Rows are padded by 16
// bytes: they stay aligned, and eight lanes that read down a column of K touch every bank once.
#include <attention/attention.cuh>
#include <ptx/barrier.cuh>
#include <ptx/ld_st.cuh>
#include <ptx/math.cuh>
#include <ptx/shfl.cuh>

namespace {

constexpr int THREADS = WARPS * WARP_SIZE;
constexpr int THREADS_X = 16;                   // threads along the columns of S and O
constexpr int THREADS_Y = THREADS / THREADS_X;  // threads along the rows
constexpr int ROWS = BLOCK_M / THREADS_Y;       // rows per thread
constexpr int COLS = BLOCK_N / THREADS_X;       // columns of S per thread
constexpr int DIMS = HEAD_DIM / THREADS_X;      // columns of O per thread, adjacent
static_assert(BLOCK_M % THREADS_Y == 0 && BLOCK_N % THREADS_X == 0 && HEAD_DIM % THREADS_X == 0);
static_assert(STAGES == 1, "one buffer for K, one for V");

constexpr int CHUNK = 16 / ELEMENT_BYTES;  // elements per 16-byte access
constexpr int ROW_BYTES = (HEAD_DIM + CHUNK) * ELEMENT_BYTES;
constexpr int P_ROW_BYTES = (BLOCK_N + 16) * 4;  // rows are 16 banks apart: the two that a warp writes share no bank

struct SharedMemory {
  static constexpr int q = 0;
  static constexpr int k = q + BLOCK_M * ROW_BYTES;
  static constexpr int v = k + BLOCK_N * ROW_BYTES;
  static constexpr int p = v + BLOCK_N * ROW_BYTES;
  static constexpr int bytes = p + BLOCK_M * P_ROW_BYTES;
};

// The elements that one access moves.
template <class T, int N>
struct alignas(N * sizeof(T)) Vector {
  T x[N];
};

template <int TILE_ROWS>
DEVICE void load_tile(uint32_t smem, const Element* gmem, int64_t row_stride) {
  constexpr int ROWS = THREADS / (HEAD_DIM / CHUNK);  // rows that the block copies per pass
  static_assert(TILE_ROWS % ROWS == 0);
  const int row = tid_x() / (HEAD_DIM / CHUNK), col = tid_x() % (HEAD_DIM / CHUNK) * CHUNK;
  gmem += static_cast<int>(row * row_stride + col);  // offsets within a head fit in 32 bits
#pragma unroll
  for (int i = 0; i < TILE_ROWS / ROWS; ++i, gmem += ROWS * row_stride)
    st_shared(smem + (row + i * ROWS) * ROW_BYTES + col * ELEMENT_BYTES, ld_global<uint4>(gmem));
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

KERNEL(THREADS, 1) vectorized_loads(const AttentionArgs args) {
  const BlockTile tile(args, ctaid_y(), ctaid_x(), ctaid_z());  // consecutive blocks share no K and V
  const uint32_t smem = shared_base();
  const uint32_t q_smem = smem + SharedMemory::q;
  const uint32_t k_smem = smem + SharedMemory::k;
  const uint32_t v_smem = smem + SharedMemory::v;
  const uint32_t p_smem = smem + SharedMemory::p;
  const int ty = tid_x() / THREADS_X, tx = tid_x() % THREADS_X;

  float o_regs[ROWS][DIMS] = {};
  float row_max[ROWS], row_sum[ROWS];
  for (int i = 0; i < ROWS; ++i) row_max[i] = -INFINITY_F32, row_sum[i] = 0.f;

  // load Q
  load_tile<BLOCK_M>(q_smem, tile.q(args), args.q_stride.seq);

  const int keys = tile.visible_keys(args);
  for (int kv_start = 0; kv_start < keys; kv_start += BLOCK_N) {
    bar_sync();  // every warp is done with the previous K, V and P
    load_tile<BLOCK_N>(k_smem, tile.k(args) + kv_start * args.k_stride.seq, args.k_stride.seq);
    load_tile<BLOCK_N>(v_smem, tile.v(args) + kv_start * args.v_stride.seq, args.v_stride.seq);
    bar_sync();  // K and V (and Q) are in shared memory

    // S = Q K^T
    float s_regs[ROWS][COLS] = {};
#pragma unroll 1
    for (int d = 0; d < HEAD_DIM; d += CHUNK) {
      Vector<Element, CHUNK> k_regs[COLS];
      for (int c = 0; c < COLS; ++c)
        k_regs[c] = ld_shared<Vector<Element, CHUNK>>(k_smem + (tx + c * THREADS_X) * ROW_BYTES + d * ELEMENT_BYTES);
      for (int i = 0; i < ROWS; ++i) {
        const auto q_regs =
            ld_shared<Vector<Element, CHUNK>>(q_smem + (ty + i * THREADS_Y) * ROW_BYTES + d * ELEMENT_BYTES);
        for (int c = 0; c < COLS; ++c)
          for (int e = 0; e < CHUNK; ++e) s_regs[i][c] += cvt_f32(q_regs.x[e]) * cvt_f32(k_regs[c].x[e]);
      }
    }
    for (int i = 0; i < ROWS; ++i)
      for (int c = 0; c < COLS; ++c) s_regs[i][c] *= args.scale;
    if (tile.crosses_diagonal(args, kv_start)) {
      for (int i = 0; i < ROWS; ++i)
        for (int c = 0; c < COLS; ++c)
          if (!tile.sees(args, ty + i * THREADS_Y, kv_start + tx + c * THREADS_X)) s_regs[i][c] = -INFINITY_F32;
    }

    // online softmax: P relative to the tile's own maximum, then a second multiply brings it to the new maximum
    for (int i = 0; i < ROWS; ++i) {
      float tile_max = -INFINITY_F32, tile_sum = 0.f;
      for (int c = 0; c < COLS; ++c) tile_max = max_f32(tile_max, s_regs[i][c]);
      tile_max = row_reduce_max(tile_max);
      // A row without a visible key has maximum -inf: subtract 0 instead, because -inf - (-inf) would be NaN.
      const float tile_base = tile_max == -INFINITY_F32 ? 0.f : tile_max;
      for (int c = 0; c < COLS; ++c) {
        s_regs[i][c] = ex2_approx_ftz((s_regs[i][c] - tile_base) * LOG2_E);
        tile_sum += s_regs[i][c];
      }
      tile_sum = row_reduce_sum(tile_sum);
      const float new_max = max_f32(row_max[i], tile_max);
      const float new_base = new_max == -INFINITY_F32 ? 0.f : new_max;
      const float rescale = ex2_approx_ftz((row_max[i] - new_base) * LOG2_E);
      const float tile_rescale = ex2_approx_ftz((tile_max - new_base) * LOG2_E);
      row_max[i] = new_max;
      row_sum[i] = row_sum[i] * rescale + tile_sum * tile_rescale;
      for (int c = 0; c < DIMS; ++c) o_regs[i][c] *= rescale;
      for (int c = 0; c < COLS; ++c)
        st_shared(p_smem + (ty + i * THREADS_Y) * P_ROW_BYTES + (tx + c * THREADS_X) * 4, s_regs[i][c] * tile_rescale);
    }
    bar_warp_sync();  // a warp barrier suffices: one warp writes and reads a row of P

    // O += P V
#pragma unroll 1
    for (int n = 0; n < BLOCK_N; n += 4) {
      Vector<float, 4> p_regs[ROWS];
      for (int i = 0; i < ROWS; ++i)
        p_regs[i] = ld_shared<Vector<float, 4>>(p_smem + (ty + i * THREADS_Y) * P_ROW_BYTES + n * 4);
      for (int e = 0; e < 4; ++e) {
        const auto v_regs = ld_shared<Vector<Element, DIMS>>(v_smem + (n + e) * ROW_BYTES + tx * DIMS * ELEMENT_BYTES);
        for (int i = 0; i < ROWS; ++i)
          for (int c = 0; c < DIMS; ++c) o_regs[i][c] += p_regs[i].x[e] * cvt_f32(v_regs.x[c]);
      }
    }
  }

  // epilogue
  Element* o = tile.o(args);
  float* lse = tile.lse(args);
  for (int i = 0; i < ROWS; ++i) {
    const int row = ty + i * THREADS_Y;
    const float inverse = row_sum[i] == 0.f ? 0.f : rcp_approx_ftz(row_sum[i]);
    Vector<Element, DIMS> o_row;
    for (int c = 0; c < DIMS; ++c) o_row.x[c] = cvt_rn<Element>(o_regs[i][c] * inverse);
    st_global(o + row * args.o_stride.seq + tx * DIMS, o_row);
    if (tx == 0)
      st_global(lse + row, row_sum[i] == 0.f ? -INFINITY_F32 : row_max[i] + lg2_approx_ftz(row_sum[i]) * LN_2);
  }
}

}  // namespace

EXPORT int shared_memory_bytes() { return SharedMemory::bytes; }

EXPORT int launch(const AttentionArgs* args, void* stream) {
  const Grid grid{args->heads, args->batch, args->seq_q / BLOCK_M};
  return launch_kernel<vectorized_loads>(grid, THREADS, SharedMemory::bytes, stream, *args);
}
