// CPU twin of cuda_kernels/ptx/max3.cuh.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include <ptx/kernel.cuh>
#include <runtime/wgmma.h>

DEVICE int32_t max3_s32(int32_t a, int32_t b, int32_t c) { return std::max({a, b, c}); }

DEVICE int32_t bits_of(float x, Where where = Where::current()) {
  cpu::check_accumulated(x, "bits_of", where);
  return std::bit_cast<int32_t>(x);
}
DEVICE float float_of(int32_t bits) { return std::bit_cast<float>(bits); }
