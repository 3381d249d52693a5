// Trailing stores: C of a tile is packed to 16 bits when its products end, and staged under those of the next tile.
#pragma once

#include <gemm/c_staging.cuh>

// Executed by a warp, as stage_c: finishes and packs all sums of its rows ...
template <int SUMS>
DEVICE void pack(uint32_t (&packed)[SUMS / 2], const GemmArgs& args, const float (&sums)[SUMS], int tile_col) {
  const int first = tile_col + tid_x() % 4 * 2;
#pragma unroll
  for (int i = 0; i < SUMS; i += 2) {  // columns past the end of C have no bias
    const int col = first + i / 4 * 8;
    const bool inside = !BIAS || col < args.n;
    packed[i / 2] =
        cvt_pack<Element>(inside ? finish(args, sums[i], col) : 0.f, inside ? finish(args, sums[i + 1], col + 1) : 0.f);
  }
}

// ... and stages C_COLUMNS columns of them, from accumulator column `first` on.
template <int PAIRS>
DEVICE void stage_packed(uint32_t buffer, const uint32_t (&packed)[PAIRS], int first) {
  const int lane = tid_x() % WARP_SIZE, row = lane % 16;
#pragma unroll
  for (int i = 0; i < C_COLUMNS / 16; ++i) {
    const uint32_t* from = packed + first / 4 + i * 4;
    const int column = i * 2 + lane / 16;  // in units of 16 bytes
    stmatrix_x4(buffer + row * 128 + (column ^ row % 8) * 16, {from[0], from[1], from[2], from[3]});
  }
}
