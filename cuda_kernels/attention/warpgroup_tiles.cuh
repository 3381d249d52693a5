// Tiles of Q, K and V that TMA writes to shared memory and warpgroups multiply: their sizes, their loads, their wgmma
// descriptors, and the rings that buffer them.
#pragma once

#include <attention/attention.cuh>
#include <ptx/math.cuh>
#include <ptx/mbarrier.cuh>
#include <ptx/shfl.cuh>
#include <ptx/tma.cuh>
#include <ptx/wgmma.cuh>
#include <attention/tma_params.cuh>

constexpr int WARPGROUP_WARPS = 4;
constexpr int WARPGROUP = WARPGROUP_WARPS * WARP_SIZE;
constexpr int WARPGROUP_ROWS = 64;  // query rows of one wgmma; each warp owns 16 of them
constexpr int MMA_K = 16;

constexpr int SLAB = 64;  // columns spanned by the 128-byte swizzle; a tile is stored slab by slab, all rows in each
constexpr int SLABS = HEAD_DIM / SLAB;
constexpr int ROW_BYTES = SLAB * ELEMENT_BYTES;
constexpr int Q_BYTES = BLOCK_M * HEAD_DIM * ELEMENT_BYTES;
constexpr int KV_BYTES = BLOCK_N * HEAD_DIM * ELEMENT_BYTES;
static_assert(HEAD_DIM % SLAB == 0 && ROW_BYTES == 128);
static_assert(BLOCK_M % 8 == 0 && BLOCK_N % 8 == 0, "the swizzle pattern of 8 rows starts at each slab");

// One thread loads ROWS rows of a head, from `row` on; their bytes complete on `full`.
template <int ROWS>
DEVICE void load_tile(uint32_t smem, const TensorMap& map, int row, int head, int batch, uint32_t full) {
  mbarrier_arrive_expect_tx(full, ROWS * HEAD_DIM * ELEMENT_BYTES);
#pragma unroll
  for (int slab = 0; slab < SLABS; ++slab)
    cp_async_bulk_tensor_load<4>(smem + slab * (ROWS * ROW_BYTES), map, {slab * SLAB, row, head, batch}, full);
}

// wgmma descriptors of a tile: built once per tile, then advanced by adding an offset. Rows of Q and K are rows of the
// operand (K-major); rows of V are the dimension that the product sums over (MN-major).
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

// The ring buffer that an iteration uses; `phase` is the parity of the barriers' phase in this round of the ring.
template <int BUFFERS>
struct RingOf {
  int stage = 0, phase = 0;
  DEVICE void advance() {
    if (++stage == BUFFERS) stage = 0, phase ^= 1;
  }
};
using Ring = RingOf<STAGES>;

// The compiler cannot move any use of these registers across this point.
template <int COUNT>
DEVICE void register_fence(uint32_t (&fragments)[COUNT][4]) {
#pragma unroll
  for (int i = 0; i < COUNT; ++i) register_fence(fragments[i]);
}

// Reduces over the four lanes that share a row of an accumulator.
DEVICE float quad_reduce_max(float x) {
  x = max_f32(x, shfl_bfly(x, 1));
  return max_f32(x, shfl_bfly(x, 2));
}
DEVICE float quad_reduce_sum(float x) {
  x += shfl_bfly(x, 1);
  return x + shfl_bfly(x, 2);
}
