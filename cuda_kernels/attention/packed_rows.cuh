// Rows of queries that share a head of K and V: all heads of a group, query by query. Row r is query r / group of head
// r % group in the group, so that a tile of few queries is full of heads and every key is read once for all of them.
#pragma once

#include <attention/attention.cuh>

struct PackedRows {
  int batch, head_kv, group, first, count;  // rows: this tile's first, and all of the group

  DEVICE PackedRows(const AttentionArgs& args, int block)
      : group(args.heads / args.heads_kv), count(group * args.seq_q) {
    const int tiles = ceil_div(count, BLOCK_M), batch_head = block / tiles;
    batch = batch_head / args.heads_kv;
    head_kv = batch_head % args.heads_kv;
    first = (tiles - 1 - block % tiles) * BLOCK_M;  // the last queries see the most keys
  }
  static int blocks(const AttentionArgs& args) {
    return args.batch * args.heads_kv * ceil_div(args.heads / args.heads_kv * args.seq_q, BLOCK_M);
  }

  DEVICE int head(int row) const { return head_kv * group + (first + row) % group; }
  DEVICE int query(int row) const { return (first + row) / group; }
  DEVICE bool exists(int row) const { return first + row < count; }

  DEVICE const Element* q(const AttentionArgs& args, int row) const {
    return static_cast<const Element*>(args.q) + batch * args.q_stride.batch + head(row) * args.q_stride.head +
           query(row) * args.q_stride.seq;
  }
  DEVICE Element* o(const AttentionArgs& args, int row) const {
    return static_cast<Element*>(args.o) + batch * args.o_stride.batch + head(row) * args.o_stride.head +
           query(row) * args.o_stride.seq;
  }
  // Position in (batch, heads, seq_q): of the log-sum-exp, and of what a part of the keys leaves.
  DEVICE int64_t place(const AttentionArgs& args, int row) const {
    return (static_cast<int64_t>(batch) * args.heads + head(row)) * args.seq_q + query(row);
  }
  DEVICE const Element* k(const AttentionArgs& args) const {
    return static_cast<const Element*>(args.k) + batch * args.k_stride.batch + head_kv * args.k_stride.head;
  }
  DEVICE const Element* v(const AttentionArgs& args) const {
    return static_cast<const Element*>(args.v) + batch * args.v_stride.batch + head_kv * args.v_stride.head;
  }

  // The last key that a row sees; below 0 if it sees none.
  DEVICE int last_key(const AttentionArgs& args, int row) const {
    const int diagonal = query(row) + args.seq_kv - args.seq_q;
    return CAUSAL && diagonal < args.seq_kv ? diagonal : args.seq_kv - 1;
  }
  // Keys that at least one row of the tile sees, and keys that every row sees.
  DEVICE int visible_keys(const AttentionArgs& args) const {
    const int keys = last_key(args, BLOCK_M - 1) + 1;
    return keys < 0 ? 0 : keys;
  }
  DEVICE int unmasked_keys(const AttentionArgs& args) const { return last_key(args, 0) + 1; }
};
