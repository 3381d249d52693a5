// The join of a tile waits for memory once: all rows of a warp, and as many parts as registers hold, are read at once.
// Builds on short_fetches; changes the epilogue only: the join of warps, the join of parts, and the fences between.
//
// A short cache is read in about the time that a few accesses to L2 take one after the other. short_fetches reads in
// that way the parts left over after eights; its warps join their rows one by one, and divide for the place of each.
// Here places are computed while K and V are on their way, and parts that are not there load nothing.
//
// The block that counts last reads what other blocks wrote. Nothing but a fence orders their stores before the counter,
// and its loads after the counter: without it the block may join old bytes. One thread's fence is enough between two
// barriers, because it also orders what the first barrier made visible to this thread. So the other threads do not wait
// for fences of their own.
#include <attention/attention.cuh>
#include <ptx/atom.cuh>
#include <ptx/barrier.cuh>
#include <ptx/cp_async.cuh>
#include <ptx/fence.cuh>
#include <ptx/ld_st.cuh>
#include <ptx/ldmatrix.cuh>
#include <ptx/math.cuh>
#include <ptx/mbarrier.cuh>
#include <ptx/mma.cuh>
#include <ptx/shfl.cuh>
#include <ptx/short_fetches.cuh>
#include <ptx/tma.cuh>
#include <attention/key_parts.cuh>
#include <attention/packed_rows.cuh>
#include <attention/parts_at_once.cuh>
#include <attention/tma_params.cuh>

namespace {

constexpr int THREADS = WARPS * WARP_SIZE;
constexpr int MMA_M = 16, MMA_N = 8, MMA_K = 16;
constexpr int ROW_WARPS = BLOCK_M / MMA_M;      // warps with rows of their own
constexpr int KEY_WARPS = WARPS / ROW_WARPS;    // warps that divide the keys of a tile
constexpr int WARP_KEYS = BLOCK_N / KEY_WARPS;  // of a tile
constexpr int S_TILES = WARP_KEYS / MMA_N;      // mma tiles along the keys
constexpr int O_TILES = HEAD_DIM / MMA_N;       // mma tiles along head_dim
constexpr int Q_TILES = HEAD_DIM / MMA_K;
static_assert(BLOCK_M == ROW_WARPS * MMA_M && WARPS == ROW_WARPS * KEY_WARPS, "each warp has 16 rows");
static_assert(WARP_KEYS % MMA_K == 0 && WARP_KEYS * KEY_WARPS == BLOCK_N && HEAD_DIM % MMA_K == 0);
static_assert(STAGES >= 2, "the next tile is loaded while this one is multiplied");

constexpr int CHUNK = 16 / ELEMENT_BYTES;  // elements per 16-byte access
constexpr int CHUNKS = HEAD_DIM / CHUNK;   // 16-byte pieces of a row
constexpr int SLAB = 64;                   // columns spanned by the 128-byte swizzle
constexpr int SLABS = HEAD_DIM / SLAB;
constexpr int ROW_BYTES = SLAB * ELEMENT_BYTES;
constexpr int Q_BYTES = BLOCK_M * HEAD_DIM * ELEMENT_BYTES;
constexpr int KV_BYTES = BLOCK_N * HEAD_DIM * ELEMENT_BYTES;
constexpr int O_ROW = HEAD_DIM + 8;  // floats of a row of O that warps exchange: 8 more, against bank conflicts
static_assert(HEAD_DIM % SLAB == 0 && ROW_BYTES == 128);

struct SharedMemory {
  static constexpr int q = 0;
  static constexpr int k = q + Q_BYTES;
  static constexpr int v = k + STAGES * KV_BYTES;
  static constexpr int k_full = v + STAGES * KV_BYTES;
  static constexpr int v_full = k_full + STAGES * 8;
  static constexpr int k_empty = v_full + STAGES * 8;
  static constexpr int v_empty = k_empty + STAGES * 8;
  static constexpr int bytes = v_empty + STAGES * 8;
  // After the loop: what each warp has of its rows, O and its log2-sum-exp2, over K and V.
  static constexpr int o = k;
  static constexpr int lse = o + KEY_WARPS * BLOCK_M * O_ROW * 4;
};
static_assert(SharedMemory::k % 1024 == 0 && KV_BYTES % 1024 == 0, "the swizzle pattern starts at each buffer");
static_assert(SharedMemory::lse + KEY_WARPS * BLOCK_M * 4 <= SharedMemory::k_full);
constexpr int RESIDENT = resident_blocks(SharedMemory::bytes);

struct RingParams {
  PartsParams split;
  TensorMap k, v;
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

// One thread loads a tile of a head of K or V, from `row` on; its bytes complete on `full`.
DEVICE void load_tile(uint32_t smem, const TensorMap& map, int row, const PackedRows& rows, uint32_t full) {
  mbarrier_arrive_expect_tx(full, KV_BYTES);
#pragma unroll
  for (int slab = 0; slab < SLABS; ++slab)
    cp_async_bulk_tensor_load<4>(smem + slab * (BLOCK_N * ROW_BYTES), map, {slab * SLAB, row, rows.head_kv, rows.batch},
                                 full);
}

// Gathers the rows of Q from their heads.
DEVICE void load_q(uint32_t smem, const AttentionArgs& args, const PackedRows& rows) {
#pragma unroll
  for (int i = tid_x(); i < BLOCK_M * CHUNKS; i += THREADS) {
    const int row = i / CHUNKS, col = i % CHUNKS * CHUNK;
    const bool exists = rows.exists(row);
    cp_async_cg_16_zfill(tile_address<BLOCK_M>(smem, row, col), rows.q(args, exists ? row : 0) + col, exists ? 16 : 0);
  }
  cp_async_commit_group();
}

// Executed by one warp: joins what the warps that divided the keys have of a row.
DEVICE JoinedRow join_warps(uint32_t smem, int row) {
  const uint32_t o = smem + SharedMemory::o, lse = smem + SharedMemory::lse;
  float largest = -INFINITY_F32, sum = 0.f;
#pragma unroll
  for (int warp = 0; warp < KEY_WARPS; ++warp)
    largest = max_f32(largest, ld_shared<float>(lse + (warp * BLOCK_M + row) * 4));
  const float base = largest == -INFINITY_F32 ? 0.f : largest;
  JoinedRow joined;
#pragma unroll
  for (int warp = 0; warp < KEY_WARPS; ++warp) {
    const float weight = ex2_approx_ftz(ld_shared<float>(lse + (warp * BLOCK_M + row) * 4) - base);
    sum += weight;
    for (int i = 0; i < JoinedRow::PAIRS; ++i)
      joined.add(weight, i, ld_shared<float2>(o + ((warp * BLOCK_M + row) * O_ROW + JoinedRow::column(i)) * 4));
  }
  joined.normalize(base, sum);
  return joined;
}

KERNEL(THREADS, RESIDENT) parts_at_once(GRID_CONSTANT const RingParams ring) {
  const PartsParams& params = ring.split;
  const AttentionArgs& args = params.args;
  const PackedRows rows(args, ctaid_x());
  const uint32_t smem = shared_base();
  const uint32_t q_smem = smem + SharedMemory::q, k_smem = smem + SharedMemory::k, v_smem = smem + SharedMemory::v;
  const uint32_t k_full = smem + SharedMemory::k_full, v_full = smem + SharedMemory::v_full;
  const uint32_t k_empty = smem + SharedMemory::k_empty, v_empty = smem + SharedMemory::v_empty;
  const int warp = shfl_idx(tid_x() / WARP_SIZE, 0), lane = tid_x() % WARP_SIZE;
  const int warp_row = warp % ROW_WARPS * MMA_M, warp_key = warp / ROW_WARPS * WARP_KEYS;

  if (tid_x() == 0) {
    for (int stage = 0; stage < STAGES; ++stage) {
      mbarrier_init(k_full + stage * 8, 1), mbarrier_init(v_full + stage * 8, 1);
      mbarrier_init(k_empty + stage * 8, WARPS), mbarrier_init(v_empty + stage * 8, WARPS);
    }
    fence_mbarrier_init();
  }

  // The row address that this lane passes to ldmatrix for the first fragment of each operand.
  const uint32_t q_lane = tile_address<BLOCK_M>(q_smem, warp_row + lane % 16, lane / 16 * 8);
  const uint32_t k_first = tile_address<BLOCK_N>(k_smem, warp_key + lane % 8 + lane / 16 * 8, lane / 8 % 2 * 8);
  const uint32_t v_first = tile_address<BLOCK_N>(v_smem, warp_key + lane % 16, lane / 16 * 8);
  // In an mma fragment this lane holds rows group and group + 8, columns 2 * quad and 2 * quad + 1.
  const int group = lane / 4, quad = lane % 4;

  const float scale_log2 = args.scale * LOG2_E;
  float o_regs[O_TILES][4] = {};
  float row_max[2] = {-INFINITY_F32, -INFINITY_F32}, row_sum[2] = {};
  const int last_key[2] = {rows.last_key(args, warp_row + group), rows.last_key(args, warp_row + group + 8)};
  const int unmasked_keys = rows.unmasked_keys(args);
  // This block's part of the key tiles; the last parts may have none.
  const int all_tiles = ceil_div(rows.visible_keys(args), BLOCK_N), part_tiles = ceil_div(all_tiles, params.parts);
  const int first_tile = ctaid_y() * part_tiles;
  const int end_tile = first_tile + part_tiles < all_tiles ? first_tile + part_tiles : all_tiles;

  // load K and V of the first STAGES tiles, then Q
  auto load_k = [&](int j, int stage) {
    load_tile(k_smem + stage * KV_BYTES, ring.k, j * BLOCK_N, rows, k_full + stage * 8);
  };
  auto load_v = [&](int j, int stage) {
    load_tile(v_smem + stage * KV_BYTES, ring.v, j * BLOCK_N, rows, v_full + stage * 8);
  };
  if (tid_x() == 0)
    for (int stage = 0; stage < STAGES && first_tile + stage < end_tile; ++stage)
      load_k(first_tile + stage, stage), load_v(first_tile + stage, stage);
  load_q(q_smem, args, rows);
  const RowPlaces places(args, rows);
  cp_async_wait_group<0>();
  bar_sync();  // Q has arrived, and every thread sees the initialized barriers
  uint32_t q_regs[Q_TILES][4];
#pragma unroll
  for (int d = 0; d < Q_TILES; ++d) ldmatrix_x4(q_regs[d], advance<BLOCK_M>(q_lane, 0, d * MMA_K));

  int stage = 0, phase = 0;  // of this iteration's buffers; phase flips when the ring wraps around
  for (int j = first_tile; j < end_tile; ++j) {
    uint32_t k_lane = k_first + stage * KV_BYTES, v_lane = v_first + stage * KV_BYTES;
    // Without the fences the compiler precomputes every address below and keeps each in a register of its own.
    register_fence(k_lane), register_fence(v_lane);
    // Refill the previous iteration's buffers, for the iteration that comes STAGES - 1 after this one.
    const int refill = j + STAGES - 1;
    const int before = stage == 0 ? STAGES - 1 : stage - 1, before_phase = stage == 0 ? phase ^ 1 : phase;
    if (tid_x() == 0 && refill < end_tile && j != first_tile) {
      wait(k_empty + before * 8, before_phase);
      load_k(refill, before);
      wait(v_empty + before * 8, before_phase);
      load_v(refill, before);
    }
    bar_warp_sync();

    wait(k_full + stage * 8, phase);
    // S = Q K^T
    float s_regs[S_TILES][4] = {};
#pragma unroll
    for (int d = 0; d < Q_TILES; ++d) {
#pragma unroll
      for (int n = 0; n < S_TILES; n += 2) {
        uint32_t k_regs[4];
        ldmatrix_x4(k_regs, advance<BLOCK_N>(k_lane, n * MMA_N, d * MMA_K));
        mma_m16n8k16<Element>(s_regs[n], q_regs[d], k_regs);
        mma_m16n8k16<Element>(s_regs[n + 1], q_regs[d], k_regs + 2);
      }
    }
    // TMA writes through another proxy: without the fence it may overwrite what ldmatrix is still reading.
    fence_proxy_async_shared();
    bar_warp_sync();  // every lane has read K
    if (lane == 0) mbarrier_arrive(k_empty + stage * 8);
    if ((j + 1) * BLOCK_N > unmasked_keys) {
#pragma unroll
      for (int n = 0; n < S_TILES; ++n)
        for (int i = 0; i < 4; ++i)
          if (j * BLOCK_N + warp_key + n * MMA_N + quad * 2 + i % 2 > last_key[i / 2]) s_regs[n][i] = -INFINITY_F32;
    }

    // online softmax
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float new_max = -INFINITY_F32;
#pragma unroll
      for (int n = 0; n < S_TILES; ++n)
        new_max = max_f32(new_max, max_f32(s_regs[n][half * 2], s_regs[n][half * 2 + 1]));
      new_max = max_f32(row_max[half], quad_reduce_max(new_max) * scale_log2);
      // A row whose scores are all -inf has maximum -inf: subtract 0 instead, because -inf - (-inf) would be NaN.
      const float new_base = new_max == -INFINITY_F32 ? 0.f : new_max;
      const float rescale = ex2_approx_ftz(row_max[half] - new_base);
      row_max[half] = new_max;
      row_sum[half] *= rescale;
#pragma unroll
      for (int n = 0; n < S_TILES; ++n) {
        for (int i = half * 2; i < half * 2 + 2; ++i) {
          s_regs[n][i] = ex2_approx_ftz(s_regs[n][i] * scale_log2 - new_base);
          row_sum[half] += s_regs[n][i];
        }
      }
#pragma unroll
      for (int d = 0; d < O_TILES; ++d) o_regs[d][half * 2] *= rescale, o_regs[d][half * 2 + 1] *= rescale;
    }

    // O += P V
    wait(v_full + stage * 8, phase);
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
    fence_proxy_async_shared();
    bar_warp_sync();  // every lane has read V
    if (lane == 0) mbarrier_arrive(v_empty + stage * 8);
    if (++stage == STAGES) stage = 0, phase ^= 1;
  }
  for (int half = 0; half < 2; ++half) row_sum[half] = quad_reduce_sum(row_sum[half]);

  // epilogue: every warp leaves O, normalized, and its log2-sum-exp2 in shared memory, over tiles that all have read
  bar_sync();
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = warp / ROW_WARPS * BLOCK_M + warp_row + group + half * 8;
    const float inverse = row_sum[half] == 0.f ? 0.f : rcp_approx_ftz(row_sum[half]);
#pragma unroll
    for (int d = 0; d < O_TILES; ++d)
      st_shared(smem + SharedMemory::o + (row * O_ROW + d * MMA_N + quad * 2) * 4,
                float2{o_regs[d][half * 2] * inverse, o_regs[d][half * 2 + 1] * inverse});
    if (quad == 0)
      st_shared(smem + SharedMemory::lse + row * 4,
                row_sum[half] == 0.f ? -INFINITY_F32 : row_max[half] + lg2_approx_ftz(row_sum[half]));
  }
  bar_sync();
  const Workspace workspace(params);
  JoinedRow joined[WARP_ROWS];  // also of rows that the tile does not have
#pragma unroll
  for (int i = 0; i < WARP_ROWS; ++i) joined[i] = join_warps(smem, i * WARPS + warp);
#pragma unroll
  for (int i = 0; i < WARP_ROWS; ++i) {
    const int place = places.place_of(i);
    Element* o = places.o_of(i, args);
    if (place < 0) continue;
    if (params.parts == 1) {
      joined[i].store(args, place, o);
      continue;
    }
    for (int pair = 0; pair < JoinedRow::PAIRS; ++pair)
      st_global(workspace.o(params, place, ctaid_y()) + JoinedRow::column(pair),
                float2{joined[i].columns[pair][0], joined[i].columns[pair][1]});
    if (lane == 0) st_global(workspace.lse(params, place, ctaid_y()), joined[i].lse);
  }
  if (params.parts == 1) return;
  // The last block of the tile joins: the others' parts are visible to it by the fences around the counter.
  bar_sync();
  if (tid_x() == 0) {
    fence_acq_rel_gpu();
    const uint32_t before = atom_inc(workspace.counter(params, ctaid_x()), static_cast<uint32_t>(params.parts - 1));
    fence_acq_rel_gpu();
    st_shared(smem, before);
  }
  bar_sync();
  if (static_cast<int>(ld_shared<uint32_t>(smem)) == params.parts - 1) join_parts_at_once(params, places);
}

// The map of K or V, with boxes of a slab of BLOCK_N rows. `encode` says why the sequence is a dimension, and why 16.
Error encode_short_fetches(TensorMap& map, const void* base, const Strides& stride, const AttentionArgs& a) {
  auto bytes = [](int64_t elements) { return static_cast<uint64_t>(elements ? elements * ELEMENT_BYTES : 16); };
  return tensor_map_encode_short_fetches<Element, 4>(
      map, base,
      {HEAD_DIM, static_cast<uint64_t>(a.seq_kv), static_cast<uint64_t>(a.heads_kv), static_cast<uint64_t>(a.batch)},
      {bytes(stride.seq), bytes(stride.head), bytes(stride.batch)}, {SLAB, BLOCK_N, 1, 1});
}

}  // namespace

EXPORT int shared_memory_bytes() { return SharedMemory::bytes; }

EXPORT int workspace_bytes(const AttentionArgs* args) { return Workspace::bytes(*args, RESIDENT); }

EXPORT int unzeroed_bytes(const AttentionArgs* args) { return Workspace::unzeroed_bytes(*args, RESIDENT); }

EXPORT int launch(const AttentionArgs* args, void* stream) {
  RingParams ring{{*args, 1}};
  if (const Error error = parts_of(*args, RESIDENT, ring.split.parts)) return error;
  const AttentionArgs& a = *args;
  Error error = encode_short_fetches(ring.k, a.k, a.k_stride, a);
  if (error == 0) error = encode_short_fetches(ring.v, a.v, a.v_stride, a);
  if (error) return error;
  const Grid grid{PackedRows::blocks(a), ring.split.parts, 1};
  return launch_kernel<parts_at_once>(grid, THREADS, SharedMemory::bytes, stream, ring);
}
