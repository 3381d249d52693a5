// The largest score that a lane holds of one of its two rows, found among floats or among integers.
#pragma once

#include <attention/attention.cuh>
#include <ptx/math.cuh>
#include <ptx/max3.cuh>
#include <ptx/vote.cuh>

struct FloatMaxima {
  DEVICE static float find(float (&s_regs)[BLOCK_N / 2], int half) {
    float x = max_f32(s_regs[half * 2], s_regs[half * 2 + 1]);
#pragma unroll
    for (int n = half * 2 + 4; n < BLOCK_N / 2; n += 4) x = max_f32(x, max_f32(s_regs[n], s_regs[n + 1]));
    return x;
  }
};

// Three-input maxima halve the reduction, which matters where an iteration has few products to overlap with it. The
// order of negative floats is that of their bits reversed, so that a warp with a negative maximum compares floats.
struct IntegerMaxima {
  DEVICE static float find_unless_negative(float (&s_regs)[BLOCK_N / 2], int half) {
    // Two chains, for even and odd n8 tiles; each instruction takes the two scores of a tile.
    int32_t largest[2] = {bits_of(s_regs[half * 2]), bits_of(s_regs[half * 2 + 4])};
    largest[0] = max3_s32(largest[0], largest[0], bits_of(s_regs[half * 2 + 1]));
    largest[1] = max3_s32(largest[1], largest[1], bits_of(s_regs[half * 2 + 5]));
#pragma unroll
    for (int n = 2; n < BLOCK_N / 8; ++n)
      largest[n % 2] =
          max3_s32(largest[n % 2], bits_of(s_regs[n * 4 + half * 2]), bits_of(s_regs[n * 4 + half * 2 + 1]));
    return float_of(max3_s32(largest[0], largest[0], largest[1]));
  }
  DEVICE static float find(float (&s_regs)[BLOCK_N / 2], int half) {
    const float x = find_unless_negative(s_regs, half);
    if (!vote_any(bits_of(x) < 0)) return x;
    register_fence(s_regs);  // otherwise the compiler computes both maxima and selects one
    return FloatMaxima::find(s_regs, half);
  }
};
