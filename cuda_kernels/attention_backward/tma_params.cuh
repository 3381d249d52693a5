// Shared by kernels that load by TMA: launch parameters with a tensor map per input, loads of tiles and row numbers,
// the wait for an mbarrier, the place in a ring of buffers, and the tiles of queries that a block goes through.
#pragma once

#include <attention_backward/attention_backward.cuh>
#include <ptx/mbarrier.cuh>
#include <ptx/tensor_map.cuh>
#include <ptx/tma.cuh>
#include <attention_backward/warpgroup_tiles.cuh>

struct TmaParams {
  AttentionBackwardArgs args;
  TensorMap q, k, v, d_o;
};

// Maps with boxes of BLOCK_M rows (Q, dO) or BLOCK_N rows (K, V) and a slab's columns. The sequence is a dimension of
// its own: a box that extends past its end reads zeros, never the next head.
inline Error encode(TmaParams& params) {
  const AttentionBackwardArgs& args = params.args;
  auto encode = [&](TensorMap& map, const void* base, const Strides& stride, int heads, int seq, uint32_t rows) {
    // A dimension of size 1 comes with stride 0, but the map requires a positive multiple of 16 bytes.
    auto bytes = [](int64_t elements) { return static_cast<uint64_t>(elements ? elements * ELEMENT_BYTES : 16); };
    return tensor_map_encode_tiled<Element, 4>(
        map, base,
        {HEAD_DIM, static_cast<uint64_t>(seq), static_cast<uint64_t>(heads), static_cast<uint64_t>(args.batch)},
        {bytes(stride.seq), bytes(stride.head), bytes(stride.batch)}, {SLAB, rows, 1, 1}, Swizzle::bytes_128);
  };
  Error error = encode(params.q, args.q, args.q_stride, args.heads, args.seq_q, BLOCK_M);
  if (error == 0) error = encode(params.d_o, args.d_o, args.d_o_stride, args.heads, args.seq_q, BLOCK_M);
  if (error == 0) error = encode(params.k, args.k, args.k_stride, args.heads_kv, args.seq_kv, BLOCK_N);
  if (error == 0) error = encode(params.v, args.v, args.v_stride, args.heads_kv, args.seq_kv, BLOCK_N);
  return error;
}

// One thread loads ROWS rows of a head, from `row` on; their bytes complete on `full`, which expects them.
template <int ROWS>
DEVICE void load_tile(uint32_t smem, const TensorMap& map, int row, int head, int batch, uint32_t full) {
#pragma unroll
  for (int slab = 0; slab < SLABS; ++slab)
    cp_async_bulk_tensor_load<4>(smem + slab * (ROWS * ROW_BYTES), map, {slab * SLAB, row, head, batch}, full);
}

constexpr int NUMBERS_BYTES = BLOCK_M * 4;  // of LSE or D of a tile

// The same with Q or dO, and with LSE or D of their rows: all that a phase of `full` expects.
DEVICE void load_queries(uint32_t smem, const TensorMap& map, uint32_t numbers, const float* source, int row, int head,
                         int batch, uint32_t full) {
  mbarrier_arrive_expect_tx(full, Q_BYTES + NUMBERS_BYTES);
  load_tile<BLOCK_M>(smem, map, row, head, batch, full);
  cp_async_bulk_load(numbers, source + row, NUMBERS_BYTES, full);
}

// Returns once the phase of this parity is complete.
DEVICE void wait(uint32_t barrier, uint32_t parity, Where where = Where::current()) {
  while (!mbarrier_try_wait_parity(barrier, parity, where)) {
  }
}

// The buffer that a step uses; `phase` is the parity of the barriers' phase in this round of the ring.
struct Ring {
  int stage = 0, phase = 0;
  DEVICE void advance() {
    if (++stage == STAGES) stage = 0, phase ^= 1;
  }
};

// The tiles of queries of all heads that share K and V, from the first tile that sees a key of the block.
struct QueryTiles {
  int first, end, head, tile, steps;

  DEVICE QueryTiles(const AttentionBackwardArgs& args, int kv_start, int head_kv)
      : first(first_query(args, kv_start) / BLOCK_M),
        end(ceil_div(args.seq_q, BLOCK_M)),
        head(head_kv * (args.heads / args.heads_kv)),
        tile(first),
        steps((end - first) * (args.heads / args.heads_kv)) {}
  DEVICE void advance() {
    if (++tile == end) tile = first, ++head;
  }
};
