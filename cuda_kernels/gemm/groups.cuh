// Groups of rows of A and C, one after the other and each with a B of its own: which tile is whose, and their maps.
#pragma once

#include <gemm/c_staging.cuh>

// What `launch` gets: fields of harness/operators/gemm/arguments.py, in the same order.
struct GroupedArgs {
  GemmArgs gemm;           // m: rows of all groups; b: of the first one
  const int32_t* offsets;  // behind which row each group ends, in device memory; null: one group of m rows
  int64_t b_group_stride;  // elements between the B of groups
  int32_t groups;
};

struct GroupedParams {
  StagedParams staged;
  const int32_t* offsets;
  int groups;
};

// The tile of a number. Tiles are numbered group by group; each begins at its group's first row, or whole tiles behind
// it, so that none has rows of two groups but for those past `end`. In a group they have the order of grouped_tile,
// GROUP_ROWS rows of C at a time.
template <int GROUP_ROWS>
struct GroupedTile {
  Tile tile{};
  int group = -1, begin = 0, end = 0;  // the tile's group, and its rows
  int first = 0, last = 0;             // tiles of that group

  // Goes on to a tile with a higher number. False: there is none.
  DEVICE bool find(const GroupedParams& params, int number) {
    GemmArgs args = params.staged.persistent.tma.args;
    while (number >= last) {
      if (++group == params.groups) return false;
      begin = end, first = last;
      end = params.offsets == nullptr ? args.m : ld_global<int32_t>(params.offsets + group);
      last += ceil_div(end - begin, BLOCK_M) * ceil_div(args.n, BLOCK_N);
    }
    args.m = end - begin;
    tile = grouped_tile<BLOCK_M, BLOCK_N, GROUP_ROWS / BLOCK_M>(args, number - first);
    tile.row += begin;
    return true;
  }
};

// The map of C cuts off what a box has beyond its group's end. Its dimensions are columns, C_ROWS, and ends: it finds
// element (column, i, end) in row end - C_ROWS + i. So the last rows of a group are those with the highest i, and rows
// of a box behind them lie outside the map. Ragged tensors of Triton (triton.tools.ragged_tma) do the same. A box needs
// rows that it may write: kept > 0.
DEVICE void store_box(const TensorMap& c, int col, int row, int kept, uint32_t staged) {
  kept = kept < C_ROWS ? kept : C_ROWS;
  cp_async_bulk_tensor_store<3>(c, {col, C_ROWS - kept, row + kept}, staged);
}

// Encodes the maps, and sets the number of blocks: no more than there can be tiles, whatever rows a group has.
inline Error prepare(GroupedParams& params, const GroupedArgs& grouped) {
  const GemmArgs& args = grouped.gemm;
  auto& [tma, tiles, blocks] = params.staged.persistent;
  if (const Error error = most_blocks(blocks)) return error;
  tiles = (ceil_div(args.m, BLOCK_M) + grouped.groups - 1) * ceil_div(args.n, BLOCK_N);
  if (tiles < blocks) blocks = tiles;
  if (const Error error = encode(tma)) return error;
  const auto n = static_cast<uint64_t>(args.n), c_stride = args.c_stride * sizeof(Output);
  const Error error = tensor_map_encode_tiled<Element, 3>(
      tma.b, args.b, {static_cast<uint64_t>(args.k), n, static_cast<uint64_t>(grouped.groups)},
      {static_cast<uint64_t>(args.b_stride * ELEMENT_BYTES),
       static_cast<uint64_t>(grouped.b_group_stride * ELEMENT_BYTES)},
      {BLOCK_K, BLOCK_N, 1}, Swizzle::bytes_128);
  if (error) return error;
  const Output* base = static_cast<const Output*>(args.c) - C_ROWS * args.c_stride;
  return tensor_map_encode_tiled<Output, 3>(params.staged.c, base,
                                            {n, static_cast<uint64_t>(C_ROWS), static_cast<uint64_t>(args.m) + 1},
                                            {c_stride, c_stride}, {C_COLUMNS, C_ROWS, 1}, Swizzle::bytes_128);
}
