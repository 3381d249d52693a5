// Tiles of Q, K and V that TMA writes to shared memory and warpgroups multiply: their size, their loads, their
// descriptors, and rings of them.
#pragma once

#include <attention.cuh>
#include <ptx/math.cuh>
#include <ptx/mbarrier.cuh>
#include <ptx/shfl.cuh>
#include <ptx/tma.cuh>
#include <ptx/wgmma.cuh>
#include <tma_params.cuh>

constexpr int WARPGROUP_WARPS = 4;
constexpr int WARPGROUP = WARPGROUP_WARPS * WARP_SIZE;
constexpr int WARPGROUP_ROWS = 64;  // query rows that a wgmma multiplies, 16 of them a warp's own
constexpr int MMA_K = 16;

constexpr int SLAB = 64;  // columns that the 128-byte swizzle spans; a tile lies slab by slab, each with all its rows
constexpr int SLABS = HEAD_DIM / SLAB;
constexpr int ROW_BYTES = SLAB * ELEMENT_BYTES;
constexpr int Q_BYTES = BLOCK_M * HEAD_DIM * ELEMENT_BYTES;
constexpr int KV_BYTES = BLOCK_N * HEAD_DIM * ELEMENT_BYTES;
static_assert(HEAD_DIM % SLAB == 0 && ROW_BYTES == 128);
static_assert(BLOCK_M % 8 == 0 && BLOCK_N % 8 == 0, "the swizzle pattern of 8 rows starts at each slab");

// One thread loads ROWS rows from `row` on of a head; `full` gets the bytes.
template <int ROWS>
DEVICE void load_tile(uint32_t smem, const TensorMap& map, int row, int head, int batch, uint32_t full) {
  mbarrier_arrive_expect_tx(full, ROWS * HEAD_DIM * ELEMENT_BYTES);
#pragma unroll
  for (int slab = 0; slab < SLABS; ++slab)
    cp_async_bulk_tensor_load<4>(smem + slab * (ROWS * ROW_BYTES), map, {slab * SLAB, row, head, batch}, full);
}

// Descriptors of a tile as an operand of wgmma, built once for a tile and moved on by adding. Rows of Q and K are rows
// of the product's operand (K-major); rows of V are what the product sums over (MN-major).
DEVICE uint64_t k_major(uint32_t smem) { return wgmma_descriptor(smem, 16, 8 * ROW_BYTES, Swizzle::bytes_128); }
template <int ROWS>
constexpr uint64_t k_major_columns(int columns) {
  return (columns / SLAB * (ROWS * ROW_BYTES) + columns % SLAB * ELEMENT_BYTES) / 16;
}
template <int ROWS>
DEVICE uint64_t mn_major(uint32_t smem) {
  return wgmma_descriptor(smem, ROWS * ROW_BYTES, 8 * ROW_BYTES, Swizzle::bytes_128);
}
constexpr uint64_t mn_major_rows(int rows) { return rows * ROW_BYTES / 16; }

// The buffer of a ring that a step uses; `phase` is the parity of its barriers' phase in this round.
template <int BUFFERS>
struct RingOf {
  int stage = 0, phase = 0;
  DEVICE void advance() {
    if (++stage == BUFFERS) stage = 0, phase ^= 1;
  }
};
using Ring = RingOf<STAGES>;

// The compiler may move no use of these registers across.
template <int COUNT>
DEVICE void register_fence(uint32_t (&fragments)[COUNT][4]) {
#pragma unroll
  for (int i = 0; i < COUNT; ++i) register_fence(fragments[i]);
}

// Over the four lanes that share a row of an accumulator.
DEVICE float quad_reduce_max(float x) {
  x = max_f32(x, shfl_bfly(x, 1));
  return max_f32(x, shfl_bfly(x, 2));
}
DEVICE float quad_reduce_sum(float x) {
  x += shfl_bfly(x, 1);
  return x + shfl_bfly(x, 2);
}
