// Shared by kernels that load by TMA: launch parameters with a tensor map of A and of B, the wait for an mbarrier, and
// the place in a ring of buffers.
#pragma once

#include <gemm/gemm.cuh>
#include <ptx/mbarrier.cuh>
#include <ptx/tensor_map.cuh>
#include <ptx/tma.cuh>

struct TmaParams {
  GemmArgs args;
  TensorMap a, b;
};

// Maps with boxes of BLOCK_M rows of A or B_ROWS rows of B and BLOCK_K columns, which must span a swizzle of 128
// bytes. Rows and columns past the end of a matrix are read as zeros, so that m, n and k need not be whole tiles.
template <int B_ROWS = BLOCK_N>
Error encode(TmaParams& params) {
  const GemmArgs& args = params.args;
  auto encode = [&](TensorMap& map, const void* base, int rows, int64_t stride, uint32_t box) {
    return tensor_map_encode_tiled<Element, 2>(map, base, {static_cast<uint64_t>(args.k), static_cast<uint64_t>(rows)},
                                               {static_cast<uint64_t>(stride * ELEMENT_BYTES)}, {BLOCK_K, box},
                                               Swizzle::bytes_128);
  };
  const Error error = encode(params.a, args.a, args.m, args.a_stride, BLOCK_M);
  return error == 0 ? encode(params.b, args.b, args.n, args.b_stride, B_ROWS) : error;
}

// Returns once the phase of this parity is complete.
DEVICE void wait(uint32_t barrier, uint32_t parity, Where where = Where::current()) {
  while (!mbarrier_try_wait_parity(barrier, parity, where)) {
  }
}

// The buffer that an iteration uses; `phase` is the parity of its barriers' phase in this round of the ring.
template <int STAGES>
struct RingOf {
  int stage = 0, phase = 0;
  DEVICE void advance() {
    if (++stage == STAGES) stage = 0, phase ^= 1;
  }
  DEVICE void advance(int steps) {
    stage += steps;
    phase ^= stage / STAGES & 1;
    stage %= STAGES;
  }
};
using Ring = RingOf<STAGES>;
