// Tensor cores by PTX: mma.sync m16n8k16 fed by ldmatrix, whose register layout is known.
// Builds on scalar; changes who multiplies: each warp owns 16 query rows, all accesses are 16 bytes wide.
//
// Q, K, V go through registers to shared memory, row by row, not permuted: the eight rows of an 8x8 matrix lie a
// multiple of 128 bytes apart, so every ldmatrix phase has 8-way bank conflicts. S leaves the tensor cores through
// shared memory; two lanes take one row through the softmax and write P back in 16 bits, where ldmatrix finds it as
// the A operand of P V. The factor that rescales O passes through shared memory too, because the lanes that hold a
// row of O are not those that know its max.
#include <attention.cuh>
#include <ptx/barrier.cuh>
#include <ptx/ld_st.cuh>
#include <ptx/ldmatrix.cuh>
#include <ptx/math.cuh>
#include <ptx/mma.cuh>
#include <ptx/shfl.cuh>

namespace {

constexpr int THREADS = WARPS * WARP_SIZE;
constexpr int MMA_M = 16, MMA_N = 8, MMA_K = 16;
constexpr int S_TILES = BLOCK_N / MMA_N;   // mma tiles across the keys
constexpr int O_TILES = HEAD_DIM / MMA_N;  // mma tiles across head_dim
constexpr int LANE_COLS = BLOCK_N / 2;     // scores of a lane in the softmax: half a row
static_assert(BLOCK_M == WARPS * MMA_M, "each warp owns 16 query rows");
static_assert(BLOCK_N % MMA_K == 0 && HEAD_DIM % MMA_K == 0);
static_assert(STAGES == 1, "one buffer for K, one for V");

constexpr int ROW_BYTES = HEAD_DIM * ELEMENT_BYTES;
constexpr int S_ROW_BYTES = BLOCK_N * 4;
constexpr int P_ROW_BYTES = BLOCK_N * ELEMENT_BYTES;

struct SharedMemory {
  static constexpr int q = 0;
  static constexpr int k = q + BLOCK_M * ROW_BYTES;
  static constexpr int v = k + BLOCK_N * ROW_BYTES;
  static constexpr int s = v + BLOCK_N * ROW_BYTES;
  static constexpr int p = s + BLOCK_M * S_ROW_BYTES;
  static constexpr int row = p + BLOCK_M * P_ROW_BYTES;  // one float per query row
  static constexpr int bytes = row + BLOCK_M * 4;
};

// Address of an element of a tile of Q, K or V.
DEVICE uint32_t tile_address(uint32_t smem, int row, int col) { return smem + row * ROW_BYTES + col * ELEMENT_BYTES; }
// The same, `row` rows and `col` columns further on.
DEVICE uint32_t advance(uint32_t address, int row, int col) { return address + row * ROW_BYTES + col * ELEMENT_BYTES; }

template <int TILE_ROWS>
DEVICE void load_tile(uint32_t smem, const Element* gmem, int64_t row_stride) {
  constexpr int CHUNK = 16 / ELEMENT_BYTES;           // elements of a 16-byte access
  constexpr int ROWS = THREADS / (HEAD_DIM / CHUNK);  // rows that the block copies at a time
  static_assert(TILE_ROWS % ROWS == 0);
  const int row = tid_x() / (HEAD_DIM / CHUNK), col = tid_x() % (HEAD_DIM / CHUNK) * CHUNK;
  gmem += row * row_stride + col;
#pragma unroll
  for (int i = 0; i < TILE_ROWS / ROWS; ++i, gmem += ROWS * row_stride)
    st_shared(tile_address(smem, row + i * ROWS, col), ld_global<uint4>(gmem));
}

KERNEL(THREADS, 1) mma_ldmatrix(const AttentionArgs args) {
  const BlockTile tile(args, ctaid_x(), ctaid_y());  // neighbours in launch order share no K and V
  const uint32_t smem = shared_base();
  const uint32_t q_smem = smem + SharedMemory::q;
  const uint32_t k_smem = smem + SharedMemory::k;
  const uint32_t v_smem = smem + SharedMemory::v;
  const int warp = tid_x() / WARP_SIZE, lane = tid_x() % WARP_SIZE;
  const int warp_row = warp * MMA_M;
  const uint32_t s_smem = smem + SharedMemory::s + warp_row * S_ROW_BYTES;
  const uint32_t p_smem = smem + SharedMemory::p + warp_row * P_ROW_BYTES;
  const uint32_t row_smem = smem + SharedMemory::row + warp_row * 4;

  // Where this lane's row of the first 8x8 matrix of a fragment lies.
  uint32_t q_lane = tile_address(q_smem, warp_row + lane % 16, lane / 16 * 8);
  uint32_t k_lane = tile_address(k_smem, lane % 8, lane / 8 % 2 * 8);
  uint32_t v_lane = tile_address(v_smem, lane % 16, 0);
  // In an mma fragment this lane holds rows group and group + 8, columns 2 * quad and the next.
  const int group = lane / 4, quad = lane % 4;
  // In the softmax it holds half of row softmax_row.
  const int softmax_row = lane / 2, softmax_col = lane % 2 * LANE_COLS;

  float o_regs[O_TILES][4] = {};
  float row_max = -INFINITY_F32, row_sum = 0.f;

  // load Q
  load_tile<BLOCK_M>(q_smem, tile.q(args), args.q_stride.seq);

  const int key_tiles = ceil_div(tile.visible_keys(args), BLOCK_N);
  for (int j = 0; j < key_tiles; ++j) {
    const int kv_start = j * BLOCK_N;
    // Without the fences the compiler keeps every address below in a register of its own.
    register_fence(q_lane), register_fence(k_lane), register_fence(v_lane);
    bar_sync();  // everybody is done with the previous K and V
    load_tile<BLOCK_N>(k_smem, tile.k(args) + kv_start * args.k_stride.seq, args.k_stride.seq);
    load_tile<BLOCK_N>(v_smem, tile.v(args) + kv_start * args.v_stride.seq, args.v_stride.seq);
    bar_sync();  // K and V (and Q) are there

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
    bar_warp_sync();  // the warp's 16 rows of S are there

    // online softmax: P against the tile's own max, then a second multiply brings it to the new max
    float scores[LANE_COLS];
#pragma unroll
    for (int c = 0; c < LANE_COLS; c += 4) {
      const float4 s = ld_shared<float4>(s_smem + softmax_row * S_ROW_BYTES + (softmax_col + c) * 4);
      scores[c] = s.x * args.scale, scores[c + 1] = s.y * args.scale;
      scores[c + 2] = s.z * args.scale, scores[c + 3] = s.w * args.scale;
    }
    if (tile.crosses_diagonal(args, kv_start)) {
#pragma unroll
      for (int c = 0; c < LANE_COLS; ++c)
        if (!tile.sees(args, warp_row + softmax_row, kv_start + softmax_col + c)) scores[c] = -INFINITY_F32;
    }
    float tile_max = -INFINITY_F32, tile_sum = 0.f;
#pragma unroll
    for (int c = 0; c < LANE_COLS; ++c) tile_max = max_f32(tile_max, scores[c]);
    tile_max = max_f32(tile_max, shfl_bfly(tile_max, 1));
    // A row without a visible key has max -inf; subtracting 0 instead keeps exp(-inf) = 0.
    const float tile_base = tile_max == -INFINITY_F32 ? 0.f : tile_max;
#pragma unroll
    for (int c = 0; c < LANE_COLS; ++c) {
      scores[c] = ex2_approx_ftz((scores[c] - tile_base) * LOG2_E);
      tile_sum += scores[c];
    }
    tile_sum += shfl_bfly(tile_sum, 1);
    const float new_max = max_f32(row_max, tile_max);
    const float new_base = new_max == -INFINITY_F32 ? 0.f : new_max;
    const float rescale = ex2_approx_ftz((row_max - new_base) * LOG2_E);
    const float tile_rescale = ex2_approx_ftz((tile_max - new_base) * LOG2_E);
    row_max = new_max;
    row_sum = row_sum * rescale + tile_sum * tile_rescale;
    if (lane % 2 == 0) st_shared(row_smem + softmax_row * 4, rescale);
#pragma unroll
    for (int c = 0; c < LANE_COLS; c += 2) {
      st_shared(p_smem + softmax_row * P_ROW_BYTES + (softmax_col + c) * ELEMENT_BYTES,
                cvt_pack<Element>(scores[c] * tile_rescale, scores[c + 1] * tile_rescale));
    }
    bar_warp_sync();  // the warp's rows of P and their factors are there

    // O += P V
    const float o_rescale[2] = {ld_shared<float>(row_smem + group * 4), ld_shared<float>(row_smem + (group + 8) * 4)};
#pragma unroll
    for (int d = 0; d < O_TILES; ++d)
      for (int i = 0; i < 4; ++i) o_regs[d][i] *= o_rescale[i / 2];
#pragma unroll
    for (int n = 0; n < BLOCK_N; n += MMA_K) {
      uint32_t p_regs[4];
      ldmatrix_x4(p_regs, p_smem + lane % 16 * P_ROW_BYTES + (n + lane / 16 * 8) * ELEMENT_BYTES);
#pragma unroll
      for (int d = 0; d < O_TILES; ++d) {
        uint32_t v_regs[2];
        ldmatrix_x2_trans(v_regs, advance(v_lane, n, d * MMA_N));
        mma_m16n8k16<Element>(o_regs[d], p_regs, v_regs);
      }
    }
  }

  // epilogue
  bar_warp_sync();  // the last factors are read
  if (lane % 2 == 0) {
    st_shared(row_smem + softmax_row * 4, row_sum > 0.f ? 1.f / row_sum : 0.f);
    st_global(tile.lse(args) + warp_row + softmax_row,
              row_sum > 0.f ? row_max + lg2_approx_ftz(row_sum) * LN_2 : -INFINITY_F32);
  }
  bar_warp_sync();  // the factors that normalize O are there
  for (int half = 0; half < 2; ++half) {
    const int row = group + half * 8;
    const float inverse = ld_shared<float>(row_smem + row * 4);
    Element* o = tile.o(args) + (warp_row + row) * args.o_stride.seq;
#pragma unroll
    for (int d = 0; d < O_TILES; ++d)
      st_global(o + d * MMA_N + quad * 2,
                cvt_pack<Element>(o_regs[d][half * 2] * inverse, o_regs[d][half * 2 + 1] * inverse));
  }
}

}  // namespace

EXPORT int shared_memory_bytes() { return SharedMemory::bytes; }

EXPORT int launch(const AttentionArgs* args, void* stream) {
  const Grid grid{args->batch * args->heads, args->seq_q / BLOCK_M, 1};
  return launch_kernel<mma_ldmatrix>(grid, THREADS, SharedMemory::bytes, stream, *args);
}
