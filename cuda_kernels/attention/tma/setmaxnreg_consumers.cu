// Registers go where the math is: a producer warpgroup gives them up, eight consumer warps take 240 per thread.
// Builds on lean_mbarrier_ring and warp_specialized; changes who loads and who holds the registers, and handles masked
// tiles in the same loop as the others. Supports any lengths, and strides aligned to 16 bytes.
//
// One block of 384 threads has a multiprocessor to itself. setmaxnreg is executed by whole warpgroups and draws on the
// pool that the block was launched with, so the producer is a whole warpgroup, although only one thread works. Each
// scheduler has two consumer warps of 32 query rows each (16 at head_dim 256), and nothing orders them: whichever is
// ready issues, so that one's softmax can overlap with the other's mma. A consumer waits only for the producer.
#include <attention/attention.cuh>
#include <ptx/barrier.cuh>
#include <ptx/fence.cuh>
#include <ptx/ld_st.cuh>
#include <ptx/ldmatrix.cuh>
#include <ptx/math.cuh>
#include <ptx/mbarrier.cuh>
#include <ptx/mma.cuh>
#include <ptx/setmaxnreg.cuh>
#include <ptx/shfl.cuh>
#include <ptx/tma.cuh>
#include <ptx/vote.cuh>
#include <attention/tile_schedulers.cuh>
#include <attention/tma_params.cuh>

namespace {

constexpr int CONSUMERS = WARPS * WARP_SIZE;
constexpr int WARPGROUP = 4 * WARP_SIZE;
constexpr int THREADS = CONSUMERS + WARPGROUP;  // plus the producer warpgroup
constexpr int PRODUCER_REGISTERS = 24, CONSUMER_REGISTERS = 240;
static_assert(WARPS == 8, "24 and 240 registers are for one producer and two consumer warpgroups");
constexpr int MMA_M = 16, MMA_N = 8, MMA_K = 16;
constexpr int S_TILES = BLOCK_N / MMA_N;            // mma tiles along the keys
constexpr int O_TILES = HEAD_DIM / MMA_N;           // mma tiles along head_dim
constexpr int M_TILES = BLOCK_M / (WARPS * MMA_M);  // m16 tiles per warp
constexpr int WARP_ROWS = M_TILES * MMA_M;
static_assert(BLOCK_M == WARPS * WARP_ROWS);
static_assert(BLOCK_N % MMA_K == 0 && HEAD_DIM % MMA_K == 0);
static_assert(STAGES >= 2, "the next tile is loaded while this one is multiplied");

constexpr int CHUNK = 16 / ELEMENT_BYTES;  // elements per 16-byte access
constexpr int SLAB = 64;                   // columns spanned by the 128-byte swizzle
constexpr int SLABS = HEAD_DIM / SLAB;
constexpr int ROW_BYTES = SLAB * ELEMENT_BYTES;
constexpr int Q_BYTES = BLOCK_M * HEAD_DIM * ELEMENT_BYTES;
constexpr int KV_BYTES = BLOCK_N * HEAD_DIM * ELEMENT_BYTES;
static_assert(HEAD_DIM % SLAB == 0 && ROW_BYTES == 128);

struct SharedMemory {
  static constexpr int q = 0;
  static constexpr int k = q + Q_BYTES;
  static constexpr int v = k + STAGES * KV_BYTES;
  static constexpr int q_full = v + STAGES * KV_BYTES;
  static constexpr int k_full = q_full + 8;
  static constexpr int v_full = k_full + STAGES * 8;
  static constexpr int k_empty = v_full + STAGES * 8;
  static constexpr int v_empty = k_empty + STAGES * 8;
  static constexpr int bytes = v_empty + STAGES * 8;
};
static_assert(SharedMemory::k % 1024 == 0 && KV_BYTES % 1024 == 0, "the swizzle pattern starts at each buffer");

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

// One thread loads ROWS rows of a head, from `row` on; their bytes complete on `full`.
template <int ROWS>
DEVICE void load_tile(uint32_t smem, const TensorMap& map, int row, int head, int batch, uint32_t full) {
  mbarrier_arrive_expect_tx(full, ROWS * HEAD_DIM * ELEMENT_BYTES);
#pragma unroll
  for (int slab = 0; slab < SLABS; ++slab)
    cp_async_bulk_tensor_load<4>(smem + slab * (ROWS * ROW_BYTES), map, {slab * SLAB, row, head, batch}, full);
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
    if (row < valid_rows)
      st_global(gmem + row * row_stride + col, ld_shared<uint4>(tile_address<BLOCK_M>(smem, row, col)));
  }
}

KERNEL(THREADS, 1) setmaxnreg_consumers(GRID_CONSTANT const TmaParams params) {
  const AttentionArgs& args = params.args;
  const LongestFirst order(args, ctaid_x());
  const BlockTile tile(args, order.batch, order.head, order.q_tile);
  const uint32_t smem = shared_base();
  const uint32_t q_smem = smem + SharedMemory::q;
  const uint32_t k_smem = smem + SharedMemory::k;
  const uint32_t v_smem = smem + SharedMemory::v;
  const uint32_t q_full = smem + SharedMemory::q_full;
  const uint32_t k_full = smem + SharedMemory::k_full, v_full = smem + SharedMemory::v_full;
  const uint32_t k_empty = smem + SharedMemory::k_empty, v_empty = smem + SharedMemory::v_empty;
  const int warp = shfl_idx(tid_x() / WARP_SIZE, 0), lane = tid_x() % WARP_SIZE;
  const int warp_row = warp * WARP_ROWS;

  if (tid_x() == 0) {
    mbarrier_init(q_full, 1);
    for (int stage = 0; stage < STAGES; ++stage) {
      mbarrier_init(k_full + stage * 8, 1), mbarrier_init(v_full + stage * 8, 1);
      mbarrier_init(k_empty + stage * 8, WARPS), mbarrier_init(v_empty + stage * 8, WARPS);
    }
    fence_mbarrier_init();
  }
  bar_sync();  // every thread sees the initialized barriers

  const int key_tiles = ceil_div(tile.visible_keys(args), BLOCK_N);

  // producer: load Q, then K and V of every iteration as buffers become empty
  if (tid_x() >= CONSUMERS) {
    setmaxnreg_dec<PRODUCER_REGISTERS>();
    if (warp == WARPS && elect_sync() && key_tiles > 0) {
      load_tile<BLOCK_M>(q_smem, params.q, tile.q_start, tile.head, tile.batch, q_full);
      int stage = 0, phase = 0;
      for (int j = key_tiles - 1; j >= 0; --j) {
        wait(k_empty + stage * 8, phase ^ 1);  // passes immediately in the first round
        load_tile<BLOCK_N>(k_smem + stage * KV_BYTES, params.k, j * BLOCK_N, tile.head_kv, tile.batch,
                           k_full + stage * 8);
        wait(v_empty + stage * 8, phase ^ 1);
        load_tile<BLOCK_N>(v_smem + stage * KV_BYTES, params.v, j * BLOCK_N, tile.head_kv, tile.batch,
                           v_full + stage * 8);
        if (++stage == STAGES) stage = 0, phase ^= 1;
      }
    }
    return;
  }
  setmaxnreg_inc<CONSUMER_REGISTERS>();

  // The row address that this lane passes to ldmatrix for the first fragment of each operand.
  uint32_t q_lane = tile_address<BLOCK_M>(q_smem, warp_row + lane % 16, lane / 16 * 8);
  const uint32_t k_first = tile_address<BLOCK_N>(k_smem, lane % 8 + lane / 16 * 8, lane / 8 % 2 * 8);
  const uint32_t v_first = tile_address<BLOCK_N>(v_smem, lane % 16, lane / 16 * 8);
  // In an mma fragment this lane holds rows group and group + 8, columns 2 * quad and 2 * quad + 1.
  const int group = lane / 4, quad = lane % 4;

  const float scale_log2 = args.scale * LOG2_E;
  float o_regs[M_TILES][O_TILES][4] = {};
  float row_max[M_TILES][2], row_sum[M_TILES][2] = {};
  for (int m = 0; m < M_TILES; ++m) row_max[m][0] = row_max[m][1] = -INFINITY_F32;

  const int whole_tiles = tile.unmasked_keys(args) / BLOCK_N;  // key tiles that need no mask
  const int q_rows = args.seq_q - tile.q_start;

  if (key_tiles > 0) wait(q_full, 0);

  int stage = 0, phase = 0;  // of this iteration's buffers; phase flips when the ring wraps around
  for (int j = key_tiles - 1; j >= 0; --j) {
    uint32_t k_lane = k_first + stage * KV_BYTES, v_lane = v_first + stage * KV_BYTES;
    // Without the fences the compiler precomputes every address below and keeps each in a register of its own.
    register_fence(q_lane), register_fence(k_lane), register_fence(v_lane);

    wait(k_full + stage * 8, phase);

    // S = Q K^T
    float s_regs[M_TILES][S_TILES][4];
#pragma unroll
    for (int d = 0; d < HEAD_DIM; d += MMA_K) {
      uint32_t q_regs[M_TILES][4];
      for (int m = 0; m < M_TILES; ++m) ldmatrix_x4(q_regs[m], advance<BLOCK_M>(q_lane, m * MMA_M, d));
#pragma unroll
      for (int n = 0; n < S_TILES; n += 2) {
        uint32_t k_regs[4];
        ldmatrix_x4(k_regs, advance<BLOCK_N>(k_lane, n * MMA_N, d));
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
    // TMA writes through another proxy: without the fence it may overwrite what ldmatrix is still reading.
    fence_proxy_async_shared();
    bar_warp_sync();  // every lane has read K
    if (lane == 0) mbarrier_arrive(k_empty + stage * 8);
    if (j >= whole_tiles) {
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
      // A row without a visible key has maximum -inf: subtract 0 instead, because -inf - (-inf) would be NaN.
      const float new_base = new_max == -INFINITY_F32 ? 0.f : new_max;
      const float rescale = ex2_approx_ftz(row_max[m][half] - new_base);
      row_max[m][half] = new_max;
      row_sum[m][half] *= rescale;
#pragma unroll
      for (int n = 0; n < S_TILES; ++n) {
        for (int i = half * 2; i < half * 2 + 2; ++i) {
          s_regs[m][n][i] = ex2_approx_ftz(s_regs[m][n][i] * scale_log2 - new_base);
          row_sum[m][half] += s_regs[m][n][i];
        }
      }
#pragma unroll
      for (int d = 0; d < O_TILES; ++d) o_regs[m][d][half * 2] *= rescale, o_regs[m][d][half * 2 + 1] *= rescale;
    }

    // O += P V
    wait(v_full + stage * 8, phase);
#pragma unroll
    for (int n = 0; n < S_TILES; n += 2) {
      uint32_t p_regs[M_TILES][4];
      for (int m = 0; m < M_TILES; ++m)
        for (int i = 0; i < 4; ++i)
          p_regs[m][i] = cvt_pack<Element>(s_regs[m][n + i / 2][i % 2 * 2], s_regs[m][n + i / 2][i % 2 * 2 + 1]);
#pragma unroll
      for (int d = 0; d < O_TILES; d += 2) {
        uint32_t v_regs[4];
        ldmatrix_x4_trans(v_regs, advance<BLOCK_N>(v_lane, n * MMA_N, d * MMA_N));
        for (int m = 0; m < M_TILES; ++m)
          for (int i = 0; i < 2; ++i) mma_m16n8k16<Element>(o_regs[m][d + i], p_regs[m], v_regs + i * 2);
      }
    }
    // TMA writes through another proxy: without the fence it may overwrite what ldmatrix is still reading.
    fence_proxy_async_shared();
    bar_warp_sync();  // every lane has read V
    if (lane == 0) mbarrier_arrive(v_empty + stage * 8);
    if (++stage == STAGES) stage = 0, phase ^= 1;
  }

  // epilogue: O overwrites this warp's rows of Q, once all its lanes have read them; no other warp reads them
  bar_warp_sync();
  const uint32_t o_lane = tile_address<BLOCK_M>(q_smem, warp_row + group, quad * 2);
#pragma unroll
  for (int i = 0; i < M_TILES * 2; ++i) {
    const int m = i / 2, half = i % 2;
    const int row = m * MMA_M + half * 8;
    const float sum = quad_reduce_sum(row_sum[m][half]);
    const float inverse = sum == 0.f ? 0.f : rcp_approx_ftz(sum);
#pragma unroll
    for (int d = 0; d < O_TILES; ++d)
      st_shared(advance<BLOCK_M>(o_lane, row, d * MMA_N),
                cvt_pack<Element>(o_regs[m][d][half * 2] * inverse, o_regs[m][d][half * 2 + 1] * inverse));
    if (quad == 0 && warp_row + row + group < q_rows)
      st_global(tile.lse(args) + warp_row + row + group,
                sum == 0.f ? -INFINITY_F32 : (row_max[m][half] + lg2_approx_ftz(sum)) * LN_2);
  }
  bar_warp_sync();  // the warp's rows of O are complete
  store_tile<WARP_ROWS>(tile.o(args), args.o_stride.seq, q_smem, warp_row, q_rows);
}

}  // namespace

EXPORT int shared_memory_bytes() { return SharedMemory::bytes; }

EXPORT int launch(const AttentionArgs* args, void* stream) {
  TmaParams params{*args};
  if (const Error error = encode(params, SLAB, Swizzle::bytes_128)) return error;
  const Grid grid{LongestFirst::blocks(*args), 1, 1};
  return launch_kernel<setmaxnreg_consumers>(grid, THREADS, SharedMemory::bytes, stream, params);
}
