// (head, tile of queries) in the order in which persistent blocks deal them out: out (tiles x 2). values: heads, seq_q,
// seq_kv, blocks.
#include <arguments.cuh>
#include <persistent_tiles.cuh>

EXPORT int launch(const Arguments* arguments, void*) {
  PersistentParams params{};
  AttentionArgs& args = params.tma.args;
  args.batch = 1, args.heads = args.heads_kv = arguments->values[0];
  args.seq_q = arguments->values[1], args.seq_kv = arguments->values[2];
  params.tiles = args.heads * ceil_div(args.seq_q, BLOCK_M);
  params.blocks = params.tiles < arguments->values[3] ? params.tiles : arguments->values[3];
  auto* out = static_cast<int32_t*>(arguments->tensors[0]);
  for (int tile = 0; tile < params.tiles; ++tile) {
    const TilePlace place = TilePlace::head_by_head(params, tile);
    out[tile * 2] = place.head, out[tile * 2 + 1] = place.q_tile;
  }
  return 0;
}
