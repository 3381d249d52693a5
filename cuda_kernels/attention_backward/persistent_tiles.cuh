// What a block that stays takes one after the other: tiles of keys, in an order that all blocks share.
#pragma once

#include <attention_backward/attention_backward.cuh>
#include <attention_backward/tma_params.cuh>
#include <ptx/device.cuh>

// Heads of K and V go in sections. All keys' first tiles of a section come first, then their second ones: where the
// mask is causal, the first keys are seen by the most queries.
struct PersistentParams {
  TmaParams tma;
  int key_tiles, section, total, blocks;
};

// As many blocks as can run at once. A section has few enough heads that L2 holds the sums of dQ of one query head of
// each, in SECTION_BYTES; without a mask all tiles are as long, and a section is one head.
constexpr int64_t SECTION_BYTES = 16 << 20;
inline Error plan(PersistentParams& params) {
  const AttentionBackwardArgs& args = params.tma.args;
  const int64_t heads = SECTION_BYTES / (static_cast<int64_t>(args.seq_q) * HEAD_DIM * 4);
  params.key_tiles = ceil_div(args.seq_kv, BLOCK_N);
  params.section = CAUSAL && heads > 1 ? static_cast<int>(heads) : 1;
  params.total = params.key_tiles * args.heads_kv * args.batch;
  int multiprocessors;
  const Error error = multiprocessor_count(multiprocessors);
  params.blocks = params.total < multiprocessors ? params.total : multiprocessors;
  return error != 0 ? error : encode(params.tma);
}

// A tile of keys of a head of K and V.
struct alignas(16) WorkTile {
  int kv_start, head_kv, batch;

  // Number `number` of all; none from the last one on.
  DEVICE static WorkTile of(const PersistentParams& params, int number) {
    if (number >= params.total) return {-1, 0, 0};
    const AttentionBackwardArgs& args = params.tma.args;
    const int first = number / (params.key_tiles * params.section) * params.section;
    const int place = number - first * params.key_tiles, others = args.heads_kv * args.batch - first;
    const int heads = params.section < others ? params.section : others;
    const int head = first + place % heads;
    return {place / heads * BLOCK_N, head % args.heads_kv, head / args.heads_kv};
  }
  DEVICE bool is_none() const { return kv_start < 0; }
};
