// Persistent blocks: one per multiprocessor, each working on tile after tile. A counter in global memory hands out tile
// numbers; the producer takes one and tells the consumer warps of its block which tile it stands for.
#pragma once

#include <attention/attention.cuh>
#include <ptx/atom.cuh>
#include <ptx/barrier.cuh>
#include <ptx/device.cuh>
#include <ptx/ld_st.cuh>
#include <ptx/mbarrier.cuh>
#include <ptx/shfl.cuh>
#include <attention/tma_params.cuh>

struct PersistentParams {
  TmaParams tma;
  TensorMap o;  // box: the rows of one bulk store; only in kernels that store O by TMA
  int tiles, blocks;
};

// Sets the number of tiles and the number of blocks that share them; encodes no map.
inline Error deal(PersistentParams& params) {
  const AttentionArgs& args = params.tma.args;
  int multiprocessors;
  const Error error = multiprocessor_count(multiprocessors);
  params.tiles = args.batch * args.heads * ceil_div(args.seq_q, BLOCK_M);
  params.blocks = params.tiles < multiprocessors ? params.tiles : multiprocessors;
  return error;
}

// The tile numbers of a block: the first is the block's own index, the others come from the counter in the workspace.
// Each tile takes one number from the counter, so that the counter has wrapped to 0 when all tiles are done.
struct TileNumbers {
  static constexpr int COUNTER_BYTES = 4;
  int tile;

  DEVICE void advance(const PersistentParams& params) {
    tile =
        static_cast<int>(atom_inc(static_cast<uint32_t*>(params.tma.args.workspace), params.tiles - 1)) + params.blocks;
  }
};

// Key tiles that a query tile works on: those that at least one row sees. If there is none, it works on one tile, fully
// masked.
DEVICE int key_tiles_of(const AttentionArgs& args, const BlockTile& tile) {
  const int tiles = ceil_div(tile.visible_keys(args), BLOCK_N);
  return tiles > 0 ? tiles : 1;
}

// The tile that a number stands for; q_tile is -1 when there is none.
struct TilePlace {
  int batch, head, q_tile, unused;

  // Heads whose K and V fit in 32 MB, about half of the L2 cache of an H200; at least one.
  DEVICE static int heads_in_l2(const AttentionArgs& args) {
    constexpr int L2_BYTES = 32 << 20;
    const int fitting = L2_BYTES / (HEAD_DIM * 2 * ELEMENT_BYTES) / args.seq_kv;
    return fitting > 0 ? fitting : 1;
  }

  // The order of LongestFirst (tile_schedulers.cuh: sections of 16 MB), in sections of heads_in_l2 heads.
  DEVICE static TilePlace of(const PersistentParams& params, int tile) {
    if (tile >= params.tiles) return {0, 0, -1, 0};
    const AttentionArgs& args = params.tma.args;
    const int heads = args.batch * args.heads, q_tiles = params.tiles / heads;
    const int section_heads = heads_in_l2(args);
    const int first_head = tile / (section_heads * q_tiles) * section_heads;
    const int here = heads - first_head < section_heads ? heads - first_head : section_heads;
    const int rest = tile - first_head * q_tiles;
    const int batch_head = first_head + rest % here;
    return {batch_head / args.heads, batch_head % args.heads, q_tiles - 1 - rest / here, 0};
  }

  // Head by head: tiles that share K and V are neighbours, and every wave of blocks reads as much from memory as the
  // next. With a causal mask a head's longest tile comes first, and the last heads (as many as make WAVES tiles per
  // block, or as fit in L2) are taken together, longest first, so that short tiles fill the tail.
  DEVICE static TilePlace head_by_head(const PersistentParams& params, int tile) {
    if (tile >= params.tiles) return {0, 0, -1, 0};
    constexpr int WAVES = 2;
    const AttentionArgs& args = params.tma.args;
    const int heads = args.batch * args.heads, q_tiles = params.tiles / heads;
    const int wanted = ceil_div(WAVES * params.blocks, q_tiles), fitting = heads_in_l2(args);
    const int together = fitting < wanted ? fitting : wanted;
    int last_heads = !CAUSAL ? 0 : together < heads ? together : heads;  // of a const 0 compilers warn as a divisor
    const int first_of_them = heads - last_heads;
    const int rest = tile - first_of_them * q_tiles;
    const int batch_head = rest < 0 ? tile / q_tiles : first_of_them + rest % last_heads;
    const int place = rest < 0 ? tile % q_tiles : rest / last_heads;  // within the head, the last q_tile first
    return {batch_head / args.heads, batch_head % args.heads, q_tiles - 1 - place, 0};
  }
};

// Queue by which one producer thread tells `readers` warps the tiles that it loads, up to SLOTS ahead of the slowest.
struct TileQueue {
  static constexpr int SLOTS = 2;
  static constexpr int PLACES = 0, FULL = SLOTS * sizeof(TilePlace), EMPTY = FULL + SLOTS * 8,
                       BYTES = EMPTY + SLOTS * 8;
  uint32_t smem;
  int slot = 0, phase = 0;

  DEVICE explicit TileQueue(uint32_t smem) : smem(smem) {}

  // Executed by one thread, before a barrier of the block.
  DEVICE void init(int readers) const {
    for (int i = 0; i < SLOTS; ++i) mbarrier_init(smem + FULL + i * 8, 1), mbarrier_init(smem + EMPTY + i * 8, readers);
  }
  DEVICE void put(const TilePlace& place) {
    wait(smem + EMPTY + slot * 8, phase ^ 1);  // passes immediately in the first round
    st_shared(smem + PLACES + slot * static_cast<int>(sizeof place), place);
    mbarrier_arrive(smem + FULL + slot * 8);
    advance();
  }
  // Executed by all lanes of a warp.
  DEVICE TilePlace take() {
    wait(smem + FULL + slot * 8, phase);
    const auto place = ld_shared<TilePlace>(smem + PLACES + slot * static_cast<int>(sizeof(TilePlace)));
    bar_warp_sync();  // every lane has read the slot
    if (tid_x() % WARP_SIZE == 0) mbarrier_arrive(smem + EMPTY + slot * 8);
    advance();
    // A loaded value is in a register of every lane; after a broadcast from lane 0 the compiler knows it is uniform.
    return {shfl_idx(place.batch, 0), shfl_idx(place.head, 0), shfl_idx(place.q_tile, 0), 0};
  }

 private:
  DEVICE void advance() {
    if (++slot == SLOTS) slot = 0, phase ^= 1;
  }
};
static_assert(sizeof(TilePlace) == 16);
