// Blocks that stay: one a multiprocessor, which works on tile after tile. Tiles are dealt out by a counter in global
// memory, longest first; a producer takes a number and tells the math warps of its block which tile it stands for.
#pragma once

#include <attention.cuh>
#include <ptx/atom.cuh>
#include <ptx/barrier.cuh>
#include <ptx/device.cuh>
#include <ptx/ld_st.cuh>
#include <ptx/mbarrier.cuh>
#include <ptx/shfl.cuh>
#include <tma_params.cuh>

struct PersistentParams {
  TmaParams tma;
  TensorMap o;  // of a warp's 16 rows, in a kernel that stores O by TMA
  int tiles, blocks;
};

// The grid, and how many tiles it shares; encodes no map.
inline Error deal(PersistentParams& params) {
  const AttentionArgs& args = params.tma.args;
  int multiprocessors;
  const Error error = multiprocessor_count(multiprocessors);
  params.tiles = args.batch * args.heads * ceil_div(args.seq_q, BLOCK_M);
  params.blocks = params.tiles < multiprocessors ? params.tiles : multiprocessors;
  return error;
}

// A block's tiles, by number: the first is its own, the others come from the counter, which is in the workspace. Every
// number up to the last tile's is taken once, and as many are taken as there are tiles: then the counter is 0 again.
struct TileNumbers {
  static constexpr int COUNTER_BYTES = 4;
  int tile;

  DEVICE void advance(const PersistentParams& params) {
    tile =
        static_cast<int>(atom_inc(static_cast<uint32_t*>(params.tma.args.workspace), params.tiles - 1)) + params.blocks;
  }
};

// Tiles of keys that a tile of queries works on: those that some row sees, and where there is none one, masked as a
// whole.
DEVICE int key_tiles_of(const AttentionArgs& args, const BlockTile& tile) {
  const int tiles = ceil_div(tile.visible_keys(args), BLOCK_N);
  return tiles > 0 ? tiles : 1;
}

// What a tile's number stands for; a q_tile of -1 says that there is none.
struct TilePlace {
  int batch, head, q_tile, unused;

  // Whose K and V fit half of a 64 MB L2 cache, one at least.
  DEVICE static int heads_in_l2(const AttentionArgs& args) {
    constexpr int L2_BYTES = 32 << 20;
    const int fitting = L2_BYTES / (HEAD_DIM * 2 * ELEMENT_BYTES) / args.seq_kv;
    return fitting > 0 ? fitting : 1;
  }

  // In the order of LongestFirst.
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

  // Head after head: tiles that share K and V are neighbours, and each wave of blocks reads as much from memory as the
  // next. With a mask a head's longest tile is its first, and the last heads, WAVES tiles a block or what fits L2, are
  // taken together, longest first, so that short tiles fill the end.
  DEVICE static TilePlace head_by_head(const PersistentParams& params, int tile) {
    if (tile >= params.tiles) return {0, 0, -1, 0};
    constexpr int WAVES = 2;
    const AttentionArgs& args = params.tma.args;
    const int heads = args.batch * args.heads, q_tiles = params.tiles / heads;
    const int wanted = ceil_div(WAVES * params.blocks, q_tiles), fitting = heads_in_l2(args);
    const int together = fitting < wanted ? fitting : wanted;
    const int last_heads = !CAUSAL ? 0 : together < heads ? together : heads, first_of_them = heads - last_heads;
    const int rest = tile - first_of_them * q_tiles;
    const int batch_head = rest < 0 ? tile / q_tiles : first_of_them + rest % last_heads;
    const int place = rest < 0 ? tile % q_tiles : rest / last_heads;  // in the head, the last q_tile first
    return {batch_head / args.heads, batch_head % args.heads, q_tiles - 1 - place, 0};
  }
};

// By which one producer thread tells `readers` warps the tiles that it loads, up to SLOTS ahead of the slowest.
struct TileQueue {
  static constexpr int SLOTS = 2;
  static constexpr int PLACES = 0, FULL = SLOTS * sizeof(TilePlace), EMPTY = FULL + SLOTS * 8,
                       BYTES = EMPTY + SLOTS * 8;
  uint32_t smem;
  int slot = 0, phase = 0;

  DEVICE explicit TileQueue(uint32_t smem) : smem(smem) {}

  // By one thread, before a barrier of the block.
  DEVICE void init(int readers) const {
    for (int i = 0; i < SLOTS; ++i) mbarrier_init(smem + FULL + i * 8, 1), mbarrier_init(smem + EMPTY + i * 8, readers);
  }
  DEVICE void put(const TilePlace& place) {
    wait(smem + EMPTY + slot * 8, phase ^ 1);  // passes at once the first time round
    st_shared(smem + PLACES + slot * static_cast<int>(sizeof place), place);
    mbarrier_arrive(smem + FULL + slot * 8);
    advance();
  }
  // By all lanes of a warp.
  DEVICE TilePlace take() {
    wait(smem + FULL + slot * 8, phase);
    const auto place = ld_shared<TilePlace>(smem + PLACES + slot * static_cast<int>(sizeof(TilePlace)));
    bar_warp_sync();  // every lane has read it
    if (tid_x() % WARP_SIZE == 0) mbarrier_arrive(smem + EMPTY + slot * 8);
    advance();
    // A value read from memory sits in a register of every lane; taken from lane 0 it is one value of the warp.
    return {shfl_idx(place.batch, 0), shfl_idx(place.head, 0), shfl_idx(place.q_tile, 0), 0};
  }

 private:
  DEVICE void advance() {
    if (++slot == SLOTS) slot = 0, phase ^= 1;
  }
};
static_assert(sizeof(TilePlace) == 16);
