// C from registers in pieces of 16 bytes. In a result of wgmma four neighbouring lanes have a row, each two columns of
// every eight: stored as they lie, numbers of 16 bits fill half of a sector of 32 bytes. So the four lanes exchange
// pairs first. Numbers of 32 bits fill the sector as they lie.
#pragma once

#include <gemm/operands.cuh>
#include <ptx/shfl.cuh>

// Word i of lane j of a quad becomes word j of lane i.
DEVICE void transpose_in_quad(uint32_t (&words)[4]) {
  const int lane = tid_x() % WARP_SIZE;
#pragma unroll
  for (int bit = 1; bit < 4; bit *= 2)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if ((i & bit) == 0) {
        const bool upper = lane & bit;
        const uint32_t got = shfl_idx(upper ? words[i] : words[i + bit], lane ^ bit);
        words[i] = upper ? got : words[i], words[i + bit] = upper ? words[i + bit] : got;
      }
}

// Executed by a warp: finishes its 16 rows of sums and writes them from (row, col) of C on.
template <int SUMS>
DEVICE void store_rows(const GemmArgs& args, int row, int col, const float (&sums)[SUMS]) {
  static_assert(SUMS % 16 == 0, "lanes of a quad exchange 32 columns at a time");
  const int lane = tid_x() % WARP_SIZE, quad = lane % 4;
  row += lane / 4;
  auto finished = [&](int i) {  // columns past the end of C have no bias
    const int at = col + i / 4 * 8 + quad * 2 + i % 2;
    return !BIAS || at < args.n ? finish(args, sums[i], at) : 0.f;
  };
#pragma unroll
  for (int half = 0; half < 2; ++half, row += 8) {
    Output* c = static_cast<Output*>(args.c) + row * args.c_stride + col;
#pragma unroll
    for (int first = half * 2; first < SUMS; first += 16) {  // 32 columns of the row, in four pairs
      if constexpr (sizeof(Output) == 2) {
        uint32_t pairs[4];
        for (int i = 0; i < 4; ++i) pairs[i] = cvt_pack<Element>(finished(first + i * 4), finished(first + i * 4 + 1));
        transpose_in_quad(pairs);
        const int at = first / 16 * 32 + quad * 8;
        if (row < args.m && col + at < args.n) st_global(c + at, uint4{pairs[0], pairs[1], pairs[2], pairs[3]});
      } else {
        for (int i = 0; i < 4; ++i) {
          const int at = first / 16 * 32 + i * 8 + quad * 2;
          if (row < args.m && col + at < args.n)
            st_global(c + at, make_float2(finished(first + i * 4), finished(first + i * 4 + 1)));
        }
      }
    }
  }
}
