// Tensor cores the portable way: wmma fragments, whose layout is unspecified.
// Builds on vectorized_loads; changes who multiplies: each warp owns 16 query rows and multiplies 16x16x16 tiles.
//
// The softmax works on rows, which fragments do not expose. S goes through shared memory to threads that hold rows,
// half a warp per row as before, and P overwrites it in 16 bits. O is in shared memory, too: every iteration rescales
// it there, loads it as the accumulator of P V, and stores it again. Rows of Q, K and V are not padded, because O needs
// the room, so fragments of 16 rows have 8-way bank conflicts.
#include <attention/attention.cuh>
#include <ptx/barrier.cuh>
#include <ptx/ld_st.cuh>
#include <ptx/math.cuh>
#include <ptx/shfl.cuh>
#include <ptx/wmma.cuh>

namespace {

constexpr int THREADS = WARPS * WARP_SIZE;
constexpr int TILE = 16;                          // rows, columns and depth of a wmma tile
constexpr int THREADS_X = 16;                     // threads along the columns of S and O
constexpr int THREADS_Y = WARP_SIZE / THREADS_X;  // threads along the rows of a warp
constexpr int ROWS = TILE / THREADS_Y;            // rows per thread
constexpr int COLS = BLOCK_N / THREADS_X;         // columns of S per thread, adjacent
constexpr int DIMS = HEAD_DIM / THREADS_X;        // columns of O per thread: groups of four, THREADS_X * 4 apart
static_assert(BLOCK_M == WARPS * TILE && BLOCK_N % TILE == 0 && HEAD_DIM % (THREADS_X * 4) == 0);
static_assert(COLS == 2 || COLS == 4, "one access moves a thread's scores of a row");
static_assert(STAGES == 1, "one buffer for K, one for V");

constexpr int ROW_BYTES = HEAD_DIM * ELEMENT_BYTES;
constexpr int S_ROW_BYTES = BLOCK_N * 4;  // P overwrites the first half
constexpr int O_ROW_BYTES = HEAD_DIM * 4;

struct SharedMemory {
  static constexpr int q = 0;
  static constexpr int k = q + BLOCK_M * ROW_BYTES;
  static constexpr int v = k + BLOCK_N * ROW_BYTES;
  static constexpr int s = v + BLOCK_N * ROW_BYTES;
  static constexpr int o = s + BLOCK_M * S_ROW_BYTES;
  static constexpr int bytes = o + BLOCK_M * O_ROW_BYTES;
};

// The elements that one access moves.
template <class T, int N>
struct alignas(N * sizeof(T)) Vector {
  T x[N];
};

// Address of an element in a tile of Q, K or V.
DEVICE uint32_t tile_address(uint32_t smem, int row, int col) { return smem + row * ROW_BYTES + col * ELEMENT_BYTES; }

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

KERNEL(THREADS, 1) wmma(const AttentionArgs args) {
  const BlockTile tile(args, ctaid_y(), ctaid_x(), ctaid_z());  // consecutive blocks share no K and V
  const uint32_t smem = shared_base();
  const uint32_t q_smem = smem + SharedMemory::q;
  const uint32_t k_smem = smem + SharedMemory::k;
  const uint32_t v_smem = smem + SharedMemory::v;
  const int warp = shfl_idx(tid_x() / WARP_SIZE, 0), lane = tid_x() % WARP_SIZE;
  const int warp_row = warp * TILE;
  const int ty = lane / THREADS_X, tx = lane % THREADS_X;
  const uint32_t s_smem = smem + SharedMemory::s + warp_row * S_ROW_BYTES;
  const uint32_t o_smem = smem + SharedMemory::o + warp_row * O_ROW_BYTES;
  const uint32_t o_lane = o_smem + ty * O_ROW_BYTES + tx * 16;

  for (int i = 0; i < ROWS; ++i)
    for (int c = 0; c < DIMS; c += 4)
      st_shared(o_lane + i * THREADS_Y * O_ROW_BYTES + c * THREADS_X * 4, Vector<float, 4>{});
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
    WmmaAccumulator s_regs[BLOCK_N / TILE] = {};
    for (int d = 0; d < HEAD_DIM; d += TILE) {
      WmmaOperand<Element> q_regs, k_regs;
      wmma_load_a_row(q_regs, tile_address(q_smem, warp_row, d), HEAD_DIM);
      for (int n = 0; n < BLOCK_N; n += TILE) {
        wmma_load_b_col(k_regs, tile_address(k_smem, n, d), HEAD_DIM);
        wmma_mma_row_col(s_regs[n / TILE], q_regs, k_regs);
      }
    }
    for (int n = 0; n < BLOCK_N; n += TILE) wmma_store_d_row(s_smem + n * 4, s_regs[n / TILE], BLOCK_N);
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
      for (int c = 0; c < DIMS; c += 4) {
        const uint32_t o_address = o_lane + i * THREADS_Y * O_ROW_BYTES + c * THREADS_X * 4;
        auto o_part = ld_shared<Vector<float, 4>>(o_address);
        for (int e = 0; e < 4; ++e) o_part.x[e] *= rescale;
        st_shared(o_address, o_part);
      }
      Vector<Element, COLS> p_row;
      for (int c = 0; c < COLS; ++c) p_row.x[c] = cvt_rn<Element>(scores[i][c] * tile_rescale);
      st_shared(s_smem + (ty + i * THREADS_Y) * S_ROW_BYTES + tx * COLS * ELEMENT_BYTES, p_row);
    }
    bar_warp_sync();  // a warp barrier suffices: one warp writes and reads a row of P and O

    // O += P V
    WmmaOperand<Element> p_regs[BLOCK_N / TILE], v_regs;
    for (int n = 0; n < BLOCK_N; n += TILE)
      wmma_load_a_row(p_regs[n / TILE], s_smem + n * ELEMENT_BYTES, S_ROW_BYTES / ELEMENT_BYTES);
    for (int d = 0; d < HEAD_DIM; d += TILE) {
      WmmaAccumulator o_regs;
      wmma_load_c_row(o_regs, o_smem + d * 4, HEAD_DIM);
      for (int n = 0; n < BLOCK_N; n += TILE) {
        wmma_load_b_row(v_regs, tile_address(v_smem, n, d), HEAD_DIM);
        wmma_mma_row_row(o_regs, p_regs[n / TILE], v_regs);
      }
      wmma_store_d_row(o_smem + d * 4, o_regs, HEAD_DIM);
    }
  }

  // epilogue
  bar_warp_sync();  // the warp's rows of O are complete
  Element* o = tile.o(args);
  float* lse = tile.lse(args);
  for (int i = 0; i < ROWS; ++i) {
    const int row = warp_row + ty + i * THREADS_Y;
    const float inverse = row_sum[i] == 0.f ? 0.f : rcp_approx_ftz(row_sum[i]);
    for (int c = 0; c < DIMS; c += 4) {
      const auto o_part = ld_shared<Vector<float, 4>>(o_lane + i * THREADS_Y * O_ROW_BYTES + c * THREADS_X * 4);
      Vector<Element, 4> o_row;
      for (int e = 0; e < 4; ++e) o_row.x[e] = cvt_rn<Element>(o_part.x[e] * inverse);
      st_global(o + row * args.o_stride.seq + tx * 4 + c * THREADS_X, o_row);
    }
    if (tx == 0)
      st_global(lse + row, row_sum[i] == 0.f ? -INFINITY_F32 : row_max[i] + lg2_approx_ftz(row_sum[i]) * LN_2);
  }
}

}  // namespace

EXPORT int shared_memory_bytes() { return SharedMemory::bytes; }

EXPORT int launch(const AttentionArgs* args, void* stream) {
  const Grid grid{args->heads, args->batch, args->seq_q / BLOCK_M};
  return launch_kernel<wmma>(grid, THREADS, SharedMemory::bytes, stream, *args);
}
