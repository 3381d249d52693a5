// C through shared memory: a warp stages 16 rows of as many columns as fill 128 bytes, and one TMA store writes them.
#pragma once

#include <gemm/persistent_tiles.cuh>
#include <gemm/warpgroup_tiles.cuh>
#include <ptx/stmatrix.cuh>

struct StagedParams {
  PersistentParams persistent;
  TensorMap c;
};

constexpr int C_ROWS = 16, C_COLUMNS = 128 / sizeof(Output);  // that a warp stages at a time
constexpr int C_BYTES = C_ROWS * 128;
static_assert(BLOCK_N % C_COLUMNS == 0);
constexpr int SHARED_MEMORY_BYTES = 227 * 1024;  // that a block can have

// Buffers of a warp: as many as fit beside the rings of A and B and 1024 bytes for barriers, at most those of a tile.
constexpr int c_buffers(int block_n, int stages) {
  const int left = (SHARED_MEMORY_BYTES - 1024 - stages * (A_BYTES + block_n * ROW_BYTES)) / (WARPS * C_BYTES);
  return left < block_n / C_COLUMNS ? left : block_n / C_COLUMNS;
}
constexpr int C_BUFFERS = c_buffers(BLOCK_N, STAGES);
static_assert(C_BUFFERS > 0, "fewer stages of A and B leave room for C");

// The map of C; a box is what a warp stages. TMA does not write what lies past the end of C.
inline Error encode(TensorMap& c, const GemmArgs& args) {
  return tensor_map_encode_tiled<Output, 2>(c, args.c, {static_cast<uint64_t>(args.n), static_cast<uint64_t>(args.m)},
                                            {args.c_stride * sizeof(Output)}, {C_COLUMNS, C_ROWS}, Swizzle::bytes_128);
}

// Executed by a warp: finishes C_COLUMNS columns of its sums, from accumulator column `first` on, and writes them to
// its buffer in the swizzle that the map undoes. `tile_col`: the first column of the tile.
template <int SUMS>
DEVICE void stage_c(uint32_t buffer, const GemmArgs& args, const float (&sums)[SUMS], int first, int tile_col) {
  const int lane = tid_x() % WARP_SIZE, group = lane / 4, quad = lane % 4;
  auto finished = [&](int i) {  // columns past the end of C have no bias
    const int col = tile_col + i / 4 * 8 + quad * 2 + i % 2;
    return !BIAS || col < args.n ? finish(args, sums[i], col) : 0.f;
  };
#pragma unroll
  for (int i = 0; i < C_COLUMNS / 2; i += 8) {  // 16 columns: a lane has four pairs of neighbours
    const int from = first / 2 + i;
    if constexpr (sizeof(Output) == 2) {
      uint32_t pairs[4];
      for (int p = 0; p < 4; ++p) pairs[p] = cvt_pack<Element>(finished(from + p * 2), finished(from + p * 2 + 1));
      const int row = lane % 16, column = i / 4 + lane / 16;  // column: in units of 16 bytes, as below
      stmatrix_x4(buffer + row * 128 + (column ^ row % 8) * 16, pairs);
    } else {
      for (int p = 0; p < 4; ++p) {
        const int row = group + p % 2 * 8, column = i / 2 + p / 2 * 2 + quad / 2;
        st_shared(buffer + row * 128 + (column ^ row % 8) * 16 + quad % 2 * 8,
                  make_float2(finished(from + p * 2), finished(from + p * 2 + 1)));
      }
    }
  }
}
