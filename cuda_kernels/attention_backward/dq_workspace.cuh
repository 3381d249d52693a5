// Sums of dQ that a kernel finds at zero and leaves at zero, in the workspace: who adds how often to a tile of them,
// and how a warp turns one into dQ.
//
// The workspace has the counter of the tiles of keys (COUNTER_BYTES), one of 4 bytes for each tile of queries of each
// head, and then the sums, as scratch memory has them: each tile as the accumulators of two warpgroups.
#pragma once

#include <attention_backward/attention_backward.cuh>
#include <attention_backward/persistent_tiles.cuh>
#include <attention_backward/tma_params.cuh>
#include <ptx/barrier.cuh>
#include <ptx/fence.cuh>
#include <ptx/ld_st.cuh>
#include <ptx/math.cuh>
#include <ptx/mbarrier.cuh>
#include <ptx/tma.cuh>

constexpr int COUNTER_BYTES = 128;  // what follows begins at a multiple of them
constexpr int TILE_BYTES = BLOCK_M * HEAD_DIM * 4;

inline int64_t sums_offset(const AttentionBackwardArgs& args) {
  const int64_t tiles = static_cast<int64_t>(args.batch) * args.heads * ceil_div(args.seq_q, BLOCK_M);
  return COUNTER_BYTES + (tiles * 4 + COUNTER_BYTES - 1) / COUNTER_BYTES * COUNTER_BYTES;
}
inline int64_t dq_workspace_bytes(const AttentionBackwardArgs& args) {
  return sums_offset(args) + static_cast<int64_t>(args.batch) * args.heads * args.scratch_rows * HEAD_DIM * 4;
}

// A tile of queries of a head, by its number among those of the batch.
struct DqTile {
  int batch, head, tile;

  DEVICE uint32_t* counter(const AttentionBackwardArgs& args) const {
    return static_cast<uint32_t*>(args.workspace) + COUNTER_BYTES / 4 +
           (batch * args.heads + head) * ceil_div(args.seq_q, BLOCK_M) + tile;
  }
  DEVICE float* sums(const AttentionBackwardArgs& args) const {
    return Head(args, batch, head).dq_sums(args) + static_cast<int64_t>(tile) * (BLOCK_M * HEAD_DIM);
  }
};

// How many tiles of keys add to a tile of queries that sees one.
DEVICE int adders(const PersistentParams& params, int tile) {
  const int diagonal = (tile + 1) * BLOCK_M - 1 + params.tma.args.seq_kv - params.tma.args.seq_q;
  return CAUSAL && diagonal / BLOCK_N < params.key_tiles ? diagonal / BLOCK_N + 1 : params.key_tiles;
}

// A warp writes dQ of a complete tile, scale times its sums, and zeros over the sums. One thread copies these to
// `smem`: after lane 0's reading of the tile's counter, and after the warp's reads of the last tile there.
DEVICE void convert_tile(const AttentionBackwardArgs& args, const DqTile& at, uint32_t smem, uint32_t full, int phase) {
  constexpr int COLUMN_BLOCKS = HEAD_DIM / 8, BLOCKS = BLOCK_M / 64 * COLUMN_BLOCKS;  // of 64 rows and 8 columns
  const int lane = tid_x() % WARP_SIZE, group = lane / 2 % 8, half = lane / 16;
  if (lane == 0) {
    fence_acq_rel_gpu();
    fence_proxy_async();
    mbarrier_arrive_expect_tx(full, TILE_BYTES);
    cp_async_bulk_load(smem, at.sums(args), TILE_BYTES, full);
  }
  wait(full, phase);
  Element* dq = Head(args, at.batch, at.head).dq(args);
  float* sums = at.sums(args) + lane * 4;
#pragma unroll 1
  for (int i = 0; i < TILE_BYTES / (WARP_SIZE * 32); ++i) {
    const int block = i * 2 % BLOCKS + lane % 2, warp = i * 2 / BLOCKS;
    const int row = at.tile * BLOCK_M + block / COLUMN_BLOCKS * 64 + warp * 16 + half * 8 + group;
    const uint32_t place = smem + (block * 128 + warp * WARP_SIZE + group * 4) * 16 + half * 8;
    uint32_t pairs[4];
#pragma unroll
    for (int quad = 0; quad < 4; ++quad) {
      const auto pair = ld_shared<float2>(place + quad * 16);
      pairs[quad] = cvt_pack<Element>(pair.x * args.scale, pair.y * args.scale);
    }
    if (row < args.seq_q)
      st_global(dq + row * args.dq_stride.seq + block % COLUMN_BLOCKS * 8,
                make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]));
    st_global(sums + i * 256, make_float4(0.f, 0.f, 0.f, 0.f));
    st_global(sums + i * 256 + 128, make_float4(0.f, 0.f, 0.f, 0.f));
  }
  fence_proxy_async_shared();
  bar_warp_sync();
}
