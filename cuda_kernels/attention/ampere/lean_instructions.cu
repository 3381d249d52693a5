// Only the instructions that attention needs: every address, mask and reduction that can be computed outside the main
// loop is moved out of it. Supports any lengths, and strides aligned to 16 bytes.
// Builds on general_shapes; changes what an iteration executes, not how data moves.
//
// Row strides are compile-time constants when tensors are packed, so that a copy is one instruction with an immediate
// offset. Keys are processed from last to first: the tiles that the diagonal or the end of the sequence cuts come
// first, at head_dim 64 in a loop of their own, so that the main loop has no mask. The first mma of an iteration takes
// zero as its accumulator. A row's maximum begins with a finite number, so that no step asks whether it is -inf. A
// row's sum stays in four parts, one per lane, until the epilogue.
#include <attention/attention.cuh>
#include <ptx/barrier.cuh>
#include <ptx/cp_async.cuh>
#include <ptx/ld_st.cuh>
#include <ptx/ldmatrix.cuh>
#include <ptx/math.cuh>
#include <ptx/mma.cuh>
#include <ptx/shfl.cuh>
#include <attention/tile_schedulers.cuh>

namespace {

constexpr int THREADS = WARPS * WARP_SIZE;
constexpr int MMA_M = 16, MMA_N = 8, MMA_K = 16;
constexpr int S_TILES = BLOCK_N / MMA_N;            // mma tiles along the keys
constexpr int O_TILES = HEAD_DIM / MMA_N;           // mma tiles along head_dim
constexpr int M_TILES = BLOCK_M / (WARPS * MMA_M);  // m16 tiles per warp
constexpr int WARP_ROWS = M_TILES * MMA_M;
static_assert(BLOCK_M == WARPS * WARP_ROWS);
// A tile that every row sees in full needs no mask: it gets a loop of its own, where registers allow it.
constexpr bool TWO_LOOPS = HEAD_DIM == 64;
static_assert(BLOCK_N % MMA_K == 0 && HEAD_DIM % MMA_K == 0);
static_assert(STAGES == 1, "one buffer for K, one for V");
constexpr float LOWEST = -3.0e38f;  // finite: a row whose scores so far are all -inf never computes -inf - (-inf)

constexpr int CHUNK = 16 / ELEMENT_BYTES;  // elements per 16-byte access
constexpr int ROW_BYTES = HEAD_DIM * ELEMENT_BYTES;

struct SharedMemory {
  static constexpr int q = 0;
  static constexpr int k = q + BLOCK_M * ROW_BYTES;
  static constexpr int v = k + BLOCK_N * ROW_BYTES;
  static constexpr int bytes = v + BLOCK_N * ROW_BYTES;
};

// Address of an element in a tile of Q, K, V or O: its 16-byte column is XORed with the row.
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

// Copies a tile; rows from `valid_rows` on are filled with zeros.
template <int TILE_ROWS, bool WHOLE>
DEVICE void load_tile(uint32_t smem, const Element* gmem, int64_t row_stride, int valid_rows) {
  constexpr int ROWS = THREADS / (HEAD_DIM / CHUNK);  // rows that the block copies per pass
  static_assert(TILE_ROWS % ROWS == 0);
  const int row = tid_x() / (HEAD_DIM / CHUNK), col = tid_x() % (HEAD_DIM / CHUNK) * CHUNK;
  gmem += row * row_stride + col;
#pragma unroll
  for (int i = 0; i < TILE_ROWS / ROWS; ++i, gmem += ROWS * row_stride) {
    if constexpr (WHOLE)
      cp_async_cg_16(tile_address(smem, row + i * ROWS, col), gmem);
    else
      cp_async_cg_16_zfill(tile_address(smem, row + i * ROWS, col), gmem, row + i * ROWS < valid_rows ? 16 : 0);
  }
  cp_async_commit_group();
}

// One warp writes rows of a tile to global memory: each lane copies 16-byte pieces, neighbouring lanes along a row.
// Rows from `valid_rows` on are not written.
template <int TILE_ROWS>
DEVICE void store_tile(Element* gmem, int64_t row_stride, uint32_t smem, int first_row, int valid_rows) {
  constexpr int ROWS = WARP_SIZE / (HEAD_DIM / CHUNK);  // rows that the warp copies per pass
  static_assert(TILE_ROWS % ROWS == 0);
  const int lane = tid_x() % WARP_SIZE;
#pragma unroll
  for (int i = 0; i < TILE_ROWS / ROWS; ++i) {
    const int row = first_row + lane / (HEAD_DIM / CHUNK) + i * ROWS, col = lane % (HEAD_DIM / CHUNK) * CHUNK;
    if (row < valid_rows) st_global(gmem + row * row_stride + col, ld_shared<uint4>(tile_address(smem, row, col)));
  }
}

KERNEL(THREADS, 1) lean_instructions(const AttentionArgs args) {
  const LongestFirst order(args, ctaid_x());
  const BlockTile tile(args, order.batch, order.head, order.q_tile);
  const uint32_t smem = shared_base();
  const uint32_t q_smem = smem + SharedMemory::q;
  const uint32_t k_smem = smem + SharedMemory::k;
  const uint32_t v_smem = smem + SharedMemory::v;
  const int warp = shfl_idx(tid_x() / WARP_SIZE, 0), lane = tid_x() % WARP_SIZE;
  const int warp_row = warp * WARP_ROWS;
  const int64_t k_row = tile.kv_row_stride(args.k_stride), v_row = tile.kv_row_stride(args.v_stride);

  // The row address that this lane passes to ldmatrix for the first fragment of each operand.
  uint32_t q_lane = tile_address(q_smem, warp_row + lane % 16, lane / 16 * 8);
  uint32_t k_lane = tile_address(k_smem, lane % 8 + lane / 16 * 8, lane / 8 % 2 * 8);
  uint32_t v_lane = tile_address(v_smem, lane % 16, lane / 16 * 8);
  // In an mma fragment this lane holds rows group and group + 8, columns 2 * quad and 2 * quad + 1.
  const int group = lane / 4, quad = lane % 4;

  const float scale_log2 = args.scale * LOG2_E;
  float o_regs[M_TILES][O_TILES][4] = {};
  float row_max[M_TILES][2], row_sum[M_TILES][2] = {};
  for (int m = 0; m < M_TILES; ++m) row_max[m][0] = row_max[m][1] = LOWEST;

  const int keys = tile.visible_keys(args);
  const int key_tiles = ceil_div(keys, BLOCK_N);
  const int whole_tiles = tile.unmasked_keys(args) / BLOCK_N;  // key tiles that need no mask
  const int q_rows = args.seq_q - tile.q_start;
  const Element* k_gmem = tile.k(args) + (key_tiles - 1) * BLOCK_N * k_row;
  const Element* v_gmem = tile.v(args) + (key_tiles - 1) * BLOCK_N * v_row;

  // load Q, then the last K
  if (key_tiles > 0) {
    load_tile<BLOCK_M, false>(q_smem, tile.q(args), tile.q_row_stride(args.q_stride), q_rows);
    load_tile<BLOCK_N, false>(k_smem, k_gmem, k_row, args.seq_kv - (key_tiles - 1) * BLOCK_N);
  }

  auto step = [&]<bool MASKED>(int j) {
    // Without the fences the compiler precomputes every address below and keeps each in a register of its own.
    register_fence(q_lane), register_fence(k_lane), register_fence(v_lane);
    cp_async_wait_group<0>();
    bar_sync();  // K (and Q) has arrived; every warp is done with the previous V
    load_tile<BLOCK_N, !MASKED>(v_smem, v_gmem, v_row, args.seq_kv - j * BLOCK_N);
    v_gmem -= BLOCK_N * v_row;

    // S = Q K^T
    float s_regs[M_TILES][S_TILES][4];
#pragma unroll
    for (int d = 0; d < HEAD_DIM; d += MMA_K) {
      uint32_t q_regs[M_TILES][4];
      for (int m = 0; m < M_TILES; ++m) ldmatrix_x4(q_regs[m], advance(q_lane, m * MMA_M, d));
#pragma unroll
      for (int n = 0; n < S_TILES; n += 2) {
        uint32_t k_regs[4];
        ldmatrix_x4(k_regs, advance(k_lane, n * MMA_N, d));
        for (int m = 0; m < M_TILES; ++m) {
          for (int i = 0; i < 2; ++i) {
            if (d == 0)
              mma_m16n8k16_zero<Element>(s_regs[m][n + i], q_regs[m], k_regs + i * 2);
            else
              mma_m16n8k16<Element>(s_regs[m][n + i], q_regs[m], k_regs + i * 2);
          }
        }
      }
    }
    if (MASKED && j >= whole_tiles) {
#pragma unroll
      for (int m = 0; m < M_TILES; ++m) {
        for (int i = 0; i < 4; ++i) {
          const int last_key = tile.last_key(args, warp_row + m * MMA_M + group + i / 2 * 8);
#pragma unroll
          for (int n = 0; n < S_TILES; ++n)
            if (j * BLOCK_N + n * MMA_N + quad * 2 + i % 2 > last_key) s_regs[m][n][i] = -INFINITY_F32;
        }
      }
    }

    // online softmax
#pragma unroll
    for (int row = 0; row < M_TILES * 2; ++row) {
      const int m = row / 2, half = row % 2;
      float new_max = max_f32(s_regs[m][0][half * 2], s_regs[m][0][half * 2 + 1]);
#pragma unroll
      for (int n = 1; n < S_TILES; ++n)
        new_max = max_f32(new_max, max_f32(s_regs[m][n][half * 2], s_regs[m][n][half * 2 + 1]));
      new_max = max_f32(row_max[m][half], quad_reduce_max(new_max) * scale_log2);
      const float rescale = ex2_approx_ftz(row_max[m][half] - new_max);
      row_max[m][half] = new_max;
      row_sum[m][half] *= rescale;
#pragma unroll
      for (int n = 0; n < S_TILES; ++n) {
        for (int i = half * 2; i < half * 2 + 2; ++i) {
          s_regs[m][n][i] = ex2_approx_ftz(s_regs[m][n][i] * scale_log2 - new_max);
          row_sum[m][half] += s_regs[m][n][i];
        }
      }
#pragma unroll
      for (int d = 0; d < O_TILES; ++d) o_regs[m][d][half * 2] *= rescale, o_regs[m][d][half * 2 + 1] *= rescale;
    }

    cp_async_wait_group<0>();
    bar_sync();  // V has arrived; every warp is done with K
    k_gmem -= BLOCK_N * k_row;
    if (j > 0) load_tile<BLOCK_N, true>(k_smem, k_gmem, k_row, BLOCK_N);

    // O += P V
#pragma unroll
    for (int n = 0; n < S_TILES; n += 2) {
      uint32_t p_regs[M_TILES][4];
      for (int m = 0; m < M_TILES; ++m)
        for (int i = 0; i < 4; ++i)
          p_regs[m][i] = cvt_pack<Element>(s_regs[m][n + i / 2][i % 2 * 2], s_regs[m][n + i / 2][i % 2 * 2 + 1]);
#pragma unroll
      for (int d = 0; d < O_TILES; d += 2) {
        uint32_t v_regs[4];
        ldmatrix_x4_trans(v_regs, advance(v_lane, n * MMA_N, d * MMA_N));
        for (int m = 0; m < M_TILES; ++m)
          for (int i = 0; i < 2; ++i) mma_m16n8k16<Element>(o_regs[m][d + i], p_regs[m], v_regs + i * 2);
      }
    }
  };
  int j = key_tiles - 1;
  for (; j >= (TWO_LOOPS ? whole_tiles : 0); --j) step.template operator()<true>(j);
  for (; TWO_LOOPS && j >= 0; --j) step.template operator()<false>(j);

  // epilogue: no copy is in flight, and no other warp reads this warp's rows of Q, which O overwrites
  const uint32_t o_lane = tile_address(q_smem, warp_row + group, quad * 2);
#pragma unroll
  for (int i = 0; i < M_TILES * 2; ++i) {
    const int m = i / 2, half = i % 2;
    const int row = m * MMA_M + half * 8;
    const float sum = quad_reduce_sum(row_sum[m][half]);
    const float inverse = sum == 0.f ? 0.f : rcp_approx_ftz(sum);
#pragma unroll
    for (int d = 0; d < O_TILES; ++d)
      st_shared(advance(o_lane, row, d * MMA_N),
                cvt_pack<Element>(o_regs[m][d][half * 2] * inverse, o_regs[m][d][half * 2 + 1] * inverse));
    if (quad == 0 && warp_row + row + group < q_rows)
      st_global(tile.lse(args) + warp_row + row + group,
                sum == 0.f ? -INFINITY_F32 : (row_max[m][half] + lg2_approx_ftz(sum)) * LN_2);
  }
  bar_warp_sync();  // the warp's rows of O are complete
  store_tile<WARP_ROWS>(tile.o(args), tile.q_row_stride(args.o_stride), q_smem, warp_row, q_rows);
}

}  // namespace

EXPORT int shared_memory_bytes() { return SharedMemory::bytes; }

EXPORT int launch(const AttentionArgs* args, void* stream) {
  const Grid grid{LongestFirst::blocks(*args), 1, 1};
  return launch_kernel<lean_instructions>(grid, THREADS, SharedMemory::bytes, stream, *args);
}
