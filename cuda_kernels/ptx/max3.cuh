// Maximum of three integers in one instruction, and the bits of a float as an integer. Compared as integers, the bits
// of floats give the right maximum as long as it is not negative.
#pragma once

#include <cstdint>

#include <ptx/kernel.cuh>

// CUDA Math API, SIMD intrinsics: __vimax3_s32 is two max in PTX; ptxas joins them. sm_90 has none for floats.
DEVICE int32_t max3_s32(int32_t a, int32_t b, int32_t c) { return __vimax3_s32(a, b, c); }

DEVICE int32_t bits_of(float x) { return __float_as_int(x); }
DEVICE float float_of(int32_t bits) { return __int_as_float(bits); }
