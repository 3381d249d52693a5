// Shared by kernels that load by TMA: launch parameters with a tensor map per input, and the wait for an mbarrier.
#pragma once

#include <attention/attention.cuh>
#include <ptx/mbarrier.cuh>
#include <ptx/tensor_map.cuh>

// Launch parameters of a kernel that loads by TMA.
struct TmaParams {
  AttentionArgs args;
  TensorMap q, k, v;
};

// The sequence is a dimension of its own: a box that extends past its end reads zeros, never the next head.
inline Error encode(TensorMap& map, const void* base, const Strides& stride, int batch, int heads, int seq,
                    const uint32_t (&box)[2], Swizzle swizzle) {
  // A dimension of size 1 comes with stride 0, but the map requires a positive multiple of 16 bytes.
  auto bytes = [](int64_t elements) { return static_cast<uint64_t>(elements ? elements * ELEMENT_BYTES : 16); };
  return tensor_map_encode_tiled<Element, 4>(
      map, base, {HEAD_DIM, static_cast<uint64_t>(seq), static_cast<uint64_t>(heads), static_cast<uint64_t>(batch)},
      {bytes(stride.seq), bytes(stride.head), bytes(stride.batch)}, {box[0], box[1], 1, 1}, swizzle);
}

// Maps with boxes of BLOCK_M rows (Q) or BLOCK_N rows (K, V) and `columns` columns.
inline Error encode(TmaParams& params, uint32_t columns, Swizzle swizzle) {
  const AttentionArgs& a = params.args;
  Error error = encode(params.q, a.q, a.q_stride, a.batch, a.heads, a.seq_q, {columns, BLOCK_M}, swizzle);
  if (error == 0) error = encode(params.k, a.k, a.k_stride, a.batch, a.heads_kv, a.seq_kv, {columns, BLOCK_N}, swizzle);
  if (error == 0) error = encode(params.v, a.v, a.v_stride, a.batch, a.heads_kv, a.seq_kv, {columns, BLOCK_N}, swizzle);
  return error;
}

// Returns once the phase of this parity is complete.
DEVICE void wait(uint32_t barrier, uint32_t parity, Where where = Where::current()) {
  while (!mbarrier_try_wait_parity(barrier, parity, where)) {
  }
}
