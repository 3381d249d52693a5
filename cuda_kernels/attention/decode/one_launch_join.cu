// The last block of a tile joins its parts: no second kernel, which would start when the slowest block has ended.
// Builds on split_keys; changes who joins.
//
// Each block writes its part, makes it visible to all blocks and takes a number from the tile's counter. The block that
// takes the last number finds all parts written, most of them still in L2. The counter wraps to 0 with that number.
#include <attention/attention.cuh>
#include <ptx/atom.cuh>
#include <ptx/barrier.cuh>
#include <ptx/cp_async.cuh>
#include <ptx/fence.cuh>
#include <ptx/ld_st.cuh>
#include <ptx/ldmatrix.cuh>
#include <ptx/math.cuh>
#include <ptx/mma.cuh>
#include <ptx/shfl.cuh>
#include <attention/key_parts.cuh>
#include <attention/packed_rows.cuh>

namespace {

constexpr int THREADS = WARPS * WARP_SIZE;
constexpr int MMA_M = 16, MMA_N = 8, MMA_K = 16;
constexpr int S_TILES = BLOCK_N / MMA_N;   // mma tiles along the keys
constexpr int O_TILES = HEAD_DIM / MMA_N;  // mma tiles along head_dim
static_assert(BLOCK_M == WARPS * MMA_M, "each warp has 16 rows");
static_assert(BLOCK_N % MMA_K == 0 && HEAD_DIM % MMA_K == 0);
static_assert(STAGES == 1, "one buffer for K, one for V");

constexpr int ROW_BYTES = HEAD_DIM * ELEMENT_BYTES;
constexpr int CHUNK = 16 / ELEMENT_BYTES;  // elements per 16-byte access
constexpr int CHUNKS = HEAD_DIM / CHUNK;   // 16-byte pieces of a row

struct SharedMemory {
  static constexpr int q = 0;
  static constexpr int k = q + BLOCK_M * ROW_BYTES;
  static constexpr int v = k + BLOCK_N * ROW_BYTES;
  static constexpr int bytes = v + BLOCK_N * ROW_BYTES;
};
constexpr int RESIDENT = resident_blocks(SharedMemory::bytes);

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

// Copies a tile of K or V; rows from `valid_rows` on are filled with zeros.
DEVICE void load_tile(uint32_t smem, const Element* gmem, int64_t row_stride, int valid_rows) {
  constexpr int ROWS = THREADS / CHUNKS;  // rows that the block copies per pass
  static_assert(THREADS % CHUNKS == 0 && BLOCK_N % ROWS == 0);
  const int row = tid_x() / CHUNKS, col = tid_x() % CHUNKS * CHUNK;
  gmem += row * row_stride + col;
#pragma unroll
  for (int i = 0; i < BLOCK_N / ROWS; ++i, gmem += ROWS * row_stride)
    cp_async_cg_16_zfill(tile_address(smem, row + i * ROWS, col), gmem, row + i * ROWS < valid_rows ? 16 : 0);
  cp_async_commit_group();
}

// Gathers the rows of Q from their heads.
DEVICE void load_q(uint32_t smem, const AttentionArgs& args, const PackedRows& rows) {
#pragma unroll
  for (int i = tid_x(); i < BLOCK_M * CHUNKS; i += THREADS) {
    const int row = i / CHUNKS, col = i % CHUNKS * CHUNK;
    const bool exists = rows.exists(row);
    cp_async_cg_16_zfill(tile_address(smem, row, col), rows.q(args, exists ? row : 0) + col, exists ? 16 : 0);
  }
  cp_async_commit_group();
}

// One warp writes its rows of O to their heads: each lane copies 16-byte pieces, neighbouring lanes along a row.
DEVICE void store_o(const AttentionArgs& args, const PackedRows& rows, uint32_t smem, int warp_row) {
#pragma unroll
  for (int i = tid_x() % WARP_SIZE; i < MMA_M * CHUNKS; i += WARP_SIZE) {
    const int row = warp_row + i / CHUNKS, col = i % CHUNKS * CHUNK;
    if (rows.exists(row)) st_global(rows.o(args, row) + col, ld_shared<uint4>(tile_address(smem, row, col)));
  }
}

KERNEL(THREADS, RESIDENT) one_launch_join(const PartsParams params) {
  const AttentionArgs& args = params.args;
  const PackedRows rows(args, ctaid_x());
  const uint32_t smem = shared_base();
  const uint32_t q_smem = smem + SharedMemory::q;
  const uint32_t k_smem = smem + SharedMemory::k;
  const uint32_t v_smem = smem + SharedMemory::v;
  const int warp = shfl_idx(tid_x() / WARP_SIZE, 0), lane = tid_x() % WARP_SIZE;
  const int warp_row = warp * MMA_M;

  // The row address that this lane passes to ldmatrix for the first fragment of each operand.
  uint32_t q_lane = tile_address(q_smem, warp_row + lane % 16, lane / 16 * 8);
  uint32_t k_lane = tile_address(k_smem, lane % 8 + lane / 16 * 8, lane / 8 % 2 * 8);
  uint32_t v_lane = tile_address(v_smem, lane % 16, lane / 16 * 8);
  // In an mma fragment this lane holds rows group and group + 8, columns 2 * quad and 2 * quad + 1.
  const int group = lane / 4, quad = lane % 4;

  const float scale_log2 = args.scale * LOG2_E;
  float o_regs[O_TILES][4] = {};
  float row_max[2] = {-INFINITY_F32, -INFINITY_F32}, row_sum[2] = {};
  const int last_key[2] = {rows.last_key(args, warp_row + group), rows.last_key(args, warp_row + group + 8)};
  const int unmasked_keys = rows.unmasked_keys(args);
  // This block's part of the keys, in whole tiles; the last parts may have none.
  const int part_keys = ceil_div(ceil_div(rows.visible_keys(args), BLOCK_N), params.parts) * BLOCK_N;
  const int first_key = ctaid_y() * part_keys;
  const int keys = first_key + part_keys < rows.visible_keys(args) ? first_key + part_keys : rows.visible_keys(args);

  // load Q, then the first K
  if (first_key < keys) {
    load_q(q_smem, args, rows);
    load_tile(k_smem, rows.k(args) + first_key * args.k_stride.seq, args.k_stride.seq, args.seq_kv - first_key);
  }

  for (int kv_start = first_key; kv_start < keys; kv_start += BLOCK_N) {
    // Without the fences the compiler precomputes every address below and keeps each in a register of its own.
    register_fence(q_lane), register_fence(k_lane), register_fence(v_lane);
    cp_async_wait_group<0>();
    bar_sync();  // K (and Q) has arrived; every warp is done with the previous V
    load_tile(v_smem, rows.v(args) + kv_start * args.v_stride.seq, args.v_stride.seq, args.seq_kv - kv_start);

    // S = Q K^T
    float s_regs[S_TILES][4] = {};
#pragma unroll
    for (int d = 0; d < HEAD_DIM; d += MMA_K) {
      uint32_t q_regs[4];
      ldmatrix_x4(q_regs, advance(q_lane, 0, d));
#pragma unroll
      for (int n = 0; n < S_TILES; n += 2) {
        uint32_t k_regs[4];
        ldmatrix_x4(k_regs, advance(k_lane, n * MMA_N, d));
        mma_m16n8k16<Element>(s_regs[n], q_regs, k_regs);
        mma_m16n8k16<Element>(s_regs[n + 1], q_regs, k_regs + 2);
      }
    }
    if (kv_start + BLOCK_N > unmasked_keys) {
#pragma unroll
      for (int n = 0; n < S_TILES; ++n)
        for (int i = 0; i < 4; ++i)
          if (kv_start + n * MMA_N + quad * 2 + i % 2 > last_key[i / 2]) s_regs[n][i] = -INFINITY_F32;
    }

    // online softmax
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float new_max = -INFINITY_F32, tile_sum = 0.f;
#pragma unroll
      for (int n = 0; n < S_TILES; ++n)
        new_max = max_f32(new_max, max_f32(s_regs[n][half * 2], s_regs[n][half * 2 + 1]));
      new_max = max_f32(row_max[half], quad_reduce_max(new_max) * scale_log2);
      // A row whose scores are all -inf has maximum -inf: subtract 0 instead, because -inf - (-inf) would be NaN.
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

    cp_async_wait_group<0>();
    bar_sync();  // V has arrived; every warp is done with K
    if (kv_start + BLOCK_N < keys)
      load_tile(k_smem, rows.k(args) + (kv_start + BLOCK_N) * args.k_stride.seq, args.k_stride.seq,
                args.seq_kv - kv_start - BLOCK_N);

    // O += P V
#pragma unroll
    for (int n = 0; n < S_TILES; n += 2) {
      uint32_t p_regs[4];
      for (int i = 0; i < 4; ++i)
        p_regs[i] = cvt_pack<Element>(s_regs[n + i / 2][i % 2 * 2], s_regs[n + i / 2][i % 2 * 2 + 1]);
#pragma unroll
      for (int d = 0; d < O_TILES; d += 2) {
        uint32_t v_regs[4];
        ldmatrix_x4_trans(v_regs, advance(v_lane, n * MMA_N, d * MMA_N));
        mma_m16n8k16<Element>(o_regs[d], p_regs, v_regs);
        mma_m16n8k16<Element>(o_regs[d + 1], p_regs, v_regs + 2);
      }
    }
  }

  // epilogue of one part of several: O, normalized, and its log2-sum-exp2 go to the workspace
  if (params.parts > 1) {
    const Workspace workspace(params);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = warp_row + group + half * 8;
      if (!rows.exists(row)) continue;
      const float inverse = row_sum[half] == 0.f ? 0.f : rcp_approx_ftz(row_sum[half]);
      float* o = workspace.o(params, rows.place(args, row), ctaid_y()) + quad * 2;
#pragma unroll
      for (int d = 0; d < O_TILES; ++d)
        st_global(o + d * MMA_N, float2{o_regs[d][half * 2] * inverse, o_regs[d][half * 2 + 1] * inverse});
      if (quad == 0)
        st_global(workspace.lse(params, rows.place(args, row), ctaid_y()),
                  row_sum[half] == 0.f ? -INFINITY_F32 : row_max[half] + lg2_approx_ftz(row_sum[half]));
    }
    // The last block of the tile joins: the others' parts are visible to it by the fences around the counter.
    fence_acq_rel_gpu();
    bar_sync();
    if (tid_x() == 0)
      st_shared(smem, atom_inc(workspace.counter(params, ctaid_x()), static_cast<uint32_t>(params.parts - 1)));
    bar_sync();
    if (static_cast<int>(ld_shared<uint32_t>(smem)) != params.parts - 1) return;
    fence_acq_rel_gpu();
    join_tile(params, rows, k_smem);
    return;
  }

  // epilogue of the only part: no copy is in flight, and no other warp reads this warp's rows of Q, which O overwrites
  const uint32_t o_lane = tile_address(q_smem, warp_row + group, quad * 2);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = warp_row + group + half * 8;
    const float inverse = row_sum[half] == 0.f ? 0.f : rcp_approx_ftz(row_sum[half]);
#pragma unroll
    for (int d = 0; d < O_TILES; ++d)
      st_shared(advance(o_lane, half * 8, d * MMA_N),
                cvt_pack<Element>(o_regs[d][half * 2] * inverse, o_regs[d][half * 2 + 1] * inverse));
    if (quad == 0 && rows.exists(row))
      st_global(args.lse + rows.place(args, row),
                row_sum[half] == 0.f ? -INFINITY_F32 : (row_max[half] + lg2_approx_ftz(row_sum[half])) * LN_2);
  }
  bar_warp_sync();  // the warp's rows of O are complete
  store_o(args, rows, q_smem, warp_row);
}

}  // namespace

EXPORT int shared_memory_bytes() { return SharedMemory::bytes; }

EXPORT int workspace_bytes(const AttentionArgs* args) { return Workspace::bytes(*args, RESIDENT); }

EXPORT int unzeroed_bytes(const AttentionArgs* args) { return Workspace::unzeroed_bytes(*args, RESIDENT); }

EXPORT int launch(const AttentionArgs* args, void* stream) {
  PartsParams params{*args, 1};
  if (const Error error = parts_of(*args, RESIDENT, params.parts)) return error;
  const Grid grid{PackedRows::blocks(*args), params.parts, 1};
  return launch_kernel<one_launch_join>(grid, THREADS, SharedMemory::bytes, stream, params);
}
