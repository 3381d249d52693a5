// (head, tile of queries) in the orders in which tiles are dealt out, by persistent blocks and by the launch of a grid:
// four of (tiles x 2). values: heads, seq_q, seq_kv, blocks.
#include <arguments.cuh>
#include <attention/head_by_head.cuh>
#include <attention/persistent_pipeline.cuh>
#include <attention/persistent_tiles.cuh>
#include <attention/tile_schedulers.cuh>

namespace {

struct Asked {
  AttentionArgs args;
  int32_t *longest_first, *head_by_head;
};

template <typename Order>
DEVICE void tell(const AttentionArgs& args, int32_t* out) {
  const Order place(args, ctaid_x());
  if (tid_x() != 0) return;
  st_global(out + ctaid_x() * 2, place.head);
  st_global(out + ctaid_x() * 2 + 1, place.q_tile);
}

KERNEL(32, 1) of_a_grid(const Asked asked) {
  tell<LongestFirst>(asked.args, asked.longest_first);
  tell<HeadByHead>(asked.args, asked.head_by_head);
}

}  // namespace

EXPORT int shared_memory_bytes() { return 0; }

EXPORT int launch(const Arguments* arguments, void* stream) {
  PersistentParams params{};
  AttentionArgs& args = params.tma.args;
  args.batch = 1, args.heads = args.heads_kv = arguments->values[0];
  args.seq_q = arguments->values[1], args.seq_kv = arguments->values[2];
  params.tiles = args.heads * ceil_div(args.seq_q, BLOCK_M);
  params.blocks = params.tiles < arguments->values[3] ? params.tiles : arguments->values[3];
  auto* third = static_cast<int32_t*>(arguments->tensors[0]);
  auto* heads = static_cast<int32_t*>(arguments->tensors[1]);
  for (int tile = 0; tile < params.tiles; ++tile) {
    const TilePlace one = shortest_third_last(params, tile), other = TilePlace::head_by_head(params, tile);
    third[tile * 2] = one.head, third[tile * 2 + 1] = one.q_tile;
    heads[tile * 2] = other.head, heads[tile * 2 + 1] = other.q_tile;
  }
  const Asked asked{args, static_cast<int32_t*>(arguments->tensors[2]), static_cast<int32_t*>(arguments->tensors[3])};
  return launch_kernel<of_a_grid>({LongestFirst::blocks(args), 1, 1}, 32, 0, stream, asked);
}
