// The flagship's data movement: the layout of buffers and barriers, the warp that loads and the warp that stores. The
// softmax and the order of the products are in the kernel.
#pragma once

#include <attention/attention.cuh>
#include <ptx/barrier.cuh>
#include <ptx/fence.cuh>
#include <ptx/ld_st.cuh>
#include <ptx/math.cuh>
#include <ptx/mbarrier.cuh>
#include <ptx/stmatrix.cuh>
#include <ptx/tma.cuh>
#include <ptx/vote.cuh>
#include <attention/persistent_tiles.cuh>
#include <attention/tma_params.cuh>
#include <attention/warpgroup_tiles.cuh>

constexpr int CONSUMERS = WARPS * WARP_SIZE;
constexpr int THREADS = CONSUMERS + WARPGROUP;  // plus the producer warpgroup
static_assert(BLOCK_M * WARPGROUP == WARPGROUP_ROWS * CONSUMERS, "each math warpgroup owns 64 query rows");
// setmaxnreg moves registers of the launch (at most 65536) from the producer to two or three consumer warpgroups.
constexpr int PRODUCER_REGISTERS = WARPS == 8 ? 24 : 32;
constexpr int CONSUMER_REGISTERS = WARPS == 8 ? 240 : 160;
static_assert(WARPS == 8 || WARPS == 12, "two or three warpgroups take turns");
constexpr int WARPGROUPS = WARPS / WARPGROUP_WARPS;
static_assert(BLOCK_N % MMA_K == 0 && BLOCK_N <= 256);
static_assert(STAGES >= 2, "the next tile is loaded while this one is multiplied");

// Two buffers if they fit, next to the rings of K and V, into the 227 KB of a block.
constexpr int Q_BUFFERS = 2 * Q_BYTES + 2 * STAGES * KV_BYTES + 1024 <= 227 * 1024 ? 2 : 1;
// O is staged where Q was. A single buffer of Q, however, is needed for the next tile at once: O is then staged in
// stages of V, one per warpgroup.
constexpr bool O_IN_V = Q_BUFFERS == 1;
static_assert(!O_IN_V || (STAGES >= WARPGROUPS && BLOCK_N >= WARPGROUP_ROWS), "V has room for O");
constexpr int O_SLAB_BYTES = (O_IN_V ? WARPGROUP_ROWS : BLOCK_M) * ROW_BYTES;

// The order of the flagship's tiles. Tiles that share K and V are neighbours, and every wave of blocks reads as much
// from memory as the next. With a causal mask tiles have different lengths: a head's longest comes first, and the
// shortest third of each head waits until all heads have had the rest. Then the longest of these come first, one from
// each head, so that ever shorter tiles fill the gaps at the end.
DEVICE TilePlace shortest_third_last(const PersistentParams& params, int tile) {
  if (tile >= params.tiles) return {0, 0, -1, 0};
  const AttentionArgs& args = params.tma.args;
  const int heads = args.batch * args.heads, q_tiles = params.tiles / heads;
  const int kept = CAUSAL ? q_tiles / 3 : 0, others = q_tiles - kept;
  const int rest = tile - heads * others;
  const int batch_head = rest < 0 ? tile / others : rest % heads;
  const int place = rest < 0 ? tile % others : others + rest / heads;  // within the head, the last q_tile first
  return {batch_head / args.heads, batch_head % args.heads, q_tiles - 1 - place, 0};
}

// Addresses in shared memory.
struct Pipeline {
  static constexpr int K = Q_BUFFERS * Q_BYTES;
  static constexpr int V = K + STAGES * KV_BYTES;
  static constexpr int QUEUE = V + STAGES * KV_BYTES;
  static constexpr int Q_FULL = QUEUE + TileQueue::BYTES;
  static constexpr int Q_EMPTY = Q_FULL + Q_BUFFERS * 8;
  static constexpr int K_FULL = Q_EMPTY + Q_BUFFERS * 8;
  static constexpr int V_FULL = K_FULL + STAGES * 8;
  static constexpr int K_EMPTY = V_FULL + STAGES * 8;
  static constexpr int V_EMPTY = K_EMPTY + STAGES * 8;
  static constexpr int O_FULL = V_EMPTY + STAGES * 8;
  static constexpr int O_READ = O_FULL + Q_BUFFERS * WARPGROUPS * 8;
  static constexpr int BYTES = O_READ + 8;
  static_assert(K % 1024 == 0 && KV_BYTES % 1024 == 0, "the swizzle pattern starts at each buffer");

  uint32_t q, k, v, queue, q_full, q_empty, k_full, v_full, k_empty, v_empty, o_full, o_read;

  DEVICE explicit Pipeline(uint32_t smem)
      : q(smem),
        k(smem + K),
        v(smem + V),
        queue(smem + QUEUE),
        q_full(smem + Q_FULL),
        q_empty(smem + Q_EMPTY),
        k_full(smem + K_FULL),
        v_full(smem + V_FULL),
        k_empty(smem + K_EMPTY),
        v_empty(smem + V_EMPTY),
        o_full(smem + O_FULL),
        o_read(smem + O_READ) {}

  // Executed by one thread, before a barrier of the block. Every consumer warp releases K and V, and also Q where O is
  // not staged in its place.
  DEVICE void init() const {
    TileQueue(queue).init(WARPS + 1);
    for (int i = 0; i < Q_BUFFERS; ++i)
      mbarrier_init(q_full + i * 8, 1), mbarrier_init(q_empty + i * 8, O_IN_V ? WARPS : 1);
    for (int stage = 0; stage < STAGES; ++stage) {
      mbarrier_init(k_full + stage * 8, 1), mbarrier_init(v_full + stage * 8, 1);
      mbarrier_init(k_empty + stage * 8, WARPS), mbarrier_init(v_empty + stage * 8, WARPS);
    }
    for (int i = 0; i < Q_BUFFERS * WARPGROUPS; ++i) mbarrier_init(o_full + i * 8, WARPGROUP_WARPS);
    mbarrier_init(o_read, 1);
    fence_mbarrier_init();
  }

  // Executed by one thread. Per tile: Q, then K of every iteration and V of the one before, as buffers become empty.
  DEVICE void load(const PersistentParams& params) const {
    const AttentionArgs& args = params.tma.args;
    TileQueue tiles(queue);
    RingOf<Q_BUFFERS> q_ring;
    Ring k_ring, v_ring;  // all buffers start empty: the first wait on each passes immediately
    RingOf<1> o_ring;
    for (TileNumbers numbers{ctaid_x()};;) {
      const TilePlace place = shortest_third_last(params, numbers.tile);
      tiles.put(place);
      if (place.q_tile < 0) break;
      const BlockTile tile(args, place.batch, place.head, place.q_tile);
      const int key_tiles = key_tiles_of(args, tile);
      auto load_q = [&] {
        wait(q_empty + q_ring.stage * 8, q_ring.phase ^ 1);
        load_tile<BLOCK_M>(q + q_ring.stage * Q_BYTES, params.tma.q, tile.q_start, tile.head, tile.batch,
                           q_full + q_ring.stage * 8);
        q_ring.advance();
      };
      if (Q_BUFFERS > 1) load_q();
      for (int j = 0; j <= key_tiles; ++j) {
        if (j < key_tiles) {
          wait(k_empty + k_ring.stage * 8, k_ring.phase ^ 1);
          load_tile<BLOCK_N>(k + k_ring.stage * KV_BYTES, params.tma.k, j * BLOCK_N, tile.head_kv, tile.batch,
                             k_full + k_ring.stage * 8);
          k_ring.advance();
          if (Q_BUFFERS == 1 && j == 0) load_q();  // a single Q buffer is released late; K need not wait for it
        } else {
          numbers.advance(params);
        }
        if (O_IN_V && j == 1) {
          wait(o_read, o_ring.phase ^ 1);
          o_ring.advance();
        }
        if (j > 0) {
          wait(v_empty + v_ring.stage * 8, v_ring.phase ^ 1);
          load_tile<BLOCK_N>(v + v_ring.stage * KV_BYTES, params.tma.v, (j - 1) * BLOCK_N, tile.head_kv, tile.batch,
                             v_full + v_ring.stage * 8);
          v_ring.advance();
        }
      }
    }
  }

  // Executed by every warp of a consumer warpgroup, after the last P V: writes the warp's 16 rows of O to the Q buffer
  // of the tile or to a stage of V, their LSE to global memory. `v_ring` is past the last V; `row_max` in log2 units.
  DEVICE void stage_o(const BlockTile& tile, const AttentionArgs& args, int q_buffer, Ring v_ring,
                      const float (&o_regs)[HEAD_DIM / 2], const float (&row_max)[2], const float (&row_sum)[2]) const {
    const int warp = shfl_idx(tid_x() / WARP_SIZE, 0), lane = tid_x() % WARP_SIZE;
    const int warpgroup = warp / WARPGROUP_WARPS, warp_row = warp * 16;
    float inverse[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = warp_row + lane / 4 + half * 8;
      const float sum = quad_reduce_sum(row_sum[half]);
      inverse[half] = sum == 0.f ? 0.f : rcp_approx_ftz(sum);
      if (lane % 4 == 0 && row < args.seq_q - tile.q_start)
        st_global(tile.lse(args) + row, sum == 0.f ? -INFINITY_F32 : (row_max[half] + lg2_approx_ftz(sum)) * LN_2);
    }
    // Wait until no product reads these bytes: all warpgroups read a stage of V, only this one its rows of Q.
    uint32_t o_smem;
    if (O_IN_V) {
      for (int i = 0; i < warpgroup; ++i) v_ring.advance();
      wait(v_empty + v_ring.stage * 8, v_ring.phase ^ 1);
      o_smem = v + v_ring.stage * KV_BYTES;
    } else {
      bar_sync(1 + WARPGROUPS + warpgroup, WARPGROUP);  // barriers 1 to WARPGROUPS are for turns
      o_smem = q + q_buffer * Q_BYTES + warpgroup * WARPGROUP_ROWS * ROW_BYTES;
    }
    const int row = warp_row % WARPGROUP_ROWS + lane % 16;  // row whose address this lane passes to stmatrix
#pragma unroll
    for (int d = 0; d < HEAD_DIM / 8; d += 2) {
      uint32_t o_pair[4];  // two n8 tiles: rows lane / 4 and lane / 4 + 8 of each
      for (int i = 0; i < 4; ++i)
        o_pair[i] =
            cvt_pack<Element>(o_regs[d * 4 + i * 2] * inverse[i % 2], o_regs[d * 4 + i * 2 + 1] * inverse[i % 2]);
      const int column = d % 8 + lane / 16;  // in units of 16 bytes
      stmatrix_x4(o_smem + d / 8 * O_SLAB_BYTES + row * ROW_BYTES + (column ^ row % 8) * 16, o_pair);
    }
    fence_proxy_async_shared();
    bar_warp_sync();  // the warp's rows of O are complete
    if (lane == 0) mbarrier_arrive(o_full + (q_buffer * WARPGROUPS + warpgroup) * 8);
  }

  // Instead of stage_o, executed by every warp of a consumer warpgroup that has no query in this tile: the bulk store
  // writes no row, since all of them lie past the end.
  DEVICE void stage_nothing(int q_buffer) const {
    const int warpgroup = shfl_idx(tid_x() / WARPGROUP, 0);
    if (tid_x() % WARP_SIZE != 0) return;
    if (O_IN_V) mbarrier_arrive(q_empty + q_buffer * 8);
    mbarrier_arrive(o_full + (q_buffer * WARPGROUPS + warpgroup) * 8);
  }

  // Executed by one warp: for each tile, stores O as the warpgroups stage it, then releases the buffer that held it.
  // With two buffers of Q the consumers are a tile ahead, so each buffer has barriers of its own. The lane that
  // releases a buffer is the one that waited until its stores had read it.
  DEVICE void store(const PersistentParams& params) const {
    const AttentionArgs& args = params.tma.args;
    const bool elected = elect_sync();
    TileQueue tiles(queue);
    RingOf<Q_BUFFERS> q_ring;
    Ring v_ring;
    for (TilePlace place = tiles.take(); place.q_tile >= 0; place = tiles.take()) {
      const BlockTile tile(args, place.batch, place.head, place.q_tile);
      if (O_IN_V)
        for (int j = key_tiles_of(args, tile) % (2 * STAGES); j > 0; --j) v_ring.advance();
      Ring o_stage = v_ring;
      for (int warpgroup = 0; warpgroup < WARPGROUPS; ++warpgroup, o_stage.advance()) {
        const int first_row = warpgroup * WARPGROUP_ROWS;
        const uint32_t o_smem =
            O_IN_V ? v + o_stage.stage * KV_BYTES : q + q_ring.stage * Q_BYTES + first_row * ROW_BYTES;
        if (elected) {
          wait(o_full + (q_ring.stage * WARPGROUPS + warpgroup) * 8, q_ring.phase);
#pragma unroll
          for (int slab = 0; slab < SLABS; ++slab)
            cp_async_bulk_tensor_store<4>(params.o, {slab * SLAB, tile.q_start + first_row, tile.head, tile.batch},
                                          o_smem + slab * O_SLAB_BYTES);
          cp_async_bulk_commit_group();
        }
      }
      if (elected) {
        cp_async_bulk_wait_group_read<0>();
        mbarrier_arrive(O_IN_V ? o_read : q_empty + q_ring.stage * 8);
      }
      q_ring.advance();
    }
  }
};

inline Error encode_all(PersistentParams& params) {
  const AttentionArgs& a = params.tma.args;
  if (const Error error = encode(params.tma, SLAB, Swizzle::bytes_128)) return error;
  if (const Error error =
          encode(params.o, a.o, a.o_stride, a.batch, a.heads, a.seq_q, {SLAB, WARPGROUP_ROWS}, Swizzle::bytes_128))
    return error;
  return deal(params);
}
