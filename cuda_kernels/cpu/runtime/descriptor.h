// Where an operand of wgmma lies in shared memory, as its descriptor says.
#pragma once

#include <cstdint>

#include <runtime/tensor_map.h>

namespace cpu {

struct Operand {
  uint32_t address, leading, stride;
  int swizzle;
  bool is_mn_major;

  Operand(uint64_t descriptor, bool mn_major)
      : address((descriptor & 0x3fff) << 4),
        leading((descriptor >> 16 & 0x3fff) << 4),
        stride((descriptor >> 32 & 0x3fff) << 4),
        swizzle((4 - static_cast<int>(descriptor >> 62)) % 4),
        is_mn_major(mn_major) {}

  // Address of the 16 bytes that start at (row of m or n, byte of k), or when MN-major at (byte of m or n, row of k).
  uint32_t chunk(uint32_t outer, uint32_t byte) const {
    uint32_t at = address;
    if (!is_mn_major) {
      const uint32_t width = CHUNK << swizzle;
      at += outer / ROWS * stride + outer % ROWS * width;
      at += swizzle ? byte : byte / CHUNK * leading;
    } else if (swizzle) {
      const uint32_t width = CHUNK << swizzle;
      at += byte / width * leading + byte % width + outer / ROWS * stride + outer % ROWS * width;
    } else {
      at += byte / CHUNK * stride + outer / ROWS * leading + outer % ROWS * CHUNK;
    }
    return swizzled(at, swizzle);
  }

  // The row of its swizzle pattern in which it starts: 0, or the hardware applies another pattern.
  uint32_t first_row() const {
    const uint32_t width = CHUNK << swizzle;
    return swizzle ? address % (ROWS * width) / width : 0;
  }

 private:
  static constexpr uint32_t ROWS = 8, CHUNK = 16;
};

}  // namespace cpu
