// 16- and 8-bit floating-point formats to fp32, exactly, without a branch, so that loops over them vectorize.
#pragma once

#include <bit>
#include <cstdint>

namespace cpu {

inline float from_bf16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

// Exponent and mantissa move into fp32's place, and a multiply corrects the bias, subnormals included.
inline float from_fp16(uint16_t bits) {
  const uint32_t magnitude = static_cast<uint32_t>(bits & 0x7fff) << 13;
  const uint32_t value = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f);
  const uint32_t special = magnitude >= 0x0f800000u ? magnitude | 0x7f800000u : value;  // infinity or NaN
  return std::bit_cast<float>(special | static_cast<uint32_t>(bits & 0x8000) << 16);
}

// Four bits of exponent with bias 7, three of mantissa; no infinity, 0x7f and 0xff are NaN.
inline float from_e4m3(uint8_t bits) {
  const uint32_t magnitude = bits & 0x7f;
  const float value = std::bit_cast<float>(magnitude << 20) * 0x1p120f;
  const uint32_t special = magnitude == 0x7f ? 0x7fc00000u : std::bit_cast<uint32_t>(value);
  return std::bit_cast<float>(special | static_cast<uint32_t>(bits & 0x80) << 24);
}

}  // namespace cpu
