// What a bulk tensor copy knows of a tensor in global memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cpu {

// 0 none; 1, 2, 3: 16-byte columns of rows of 32, 64, 128 bytes, XORed with the row.
inline uint32_t swizzled(uint32_t address, int swizzle) {
  return address ^ (address >> 7 & ((1u << swizzle) - 1)) << 4;
}

constexpr int MAX_RANK = 5;

struct TensorMap {
  const std::byte* base;
  int rank, element_bytes, swizzle;
  uint64_t sizes[MAX_RANK], strides[MAX_RANK];  // elements; bytes, the innermost included
  uint32_t box[MAX_RANK];

  uint32_t box_bytes() const;
};

// 0, or 1 when the driver would refuse this map; the next launch's diagnosis says why.
int refuse_map(const TensorMap& map);

}  // namespace cpu
