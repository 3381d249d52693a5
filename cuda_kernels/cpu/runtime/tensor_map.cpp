#include <runtime/tensor_map.h>

#include <string>

#include <runtime/diagnosis.h>

namespace cpu {

uint32_t TensorMap::box_bytes() const {
  uint32_t bytes = element_bytes;
  for (int d = 0; d < rank; ++d) bytes *= box[d];
  return bytes;
}

namespace {

std::string what_is_wrong(const TensorMap& map) {
  const uint32_t row_bytes = map.box[0] * map.element_bytes;
  if (reinterpret_cast<uintptr_t>(map.base) % 16)
    return text("base %p is not a multiple of 16", static_cast<const void*>(map.base));
  for (int d = 0; d < map.rank; ++d) {
    if (!map.sizes[d] || map.sizes[d] > 1ull << 32) return text("size %d is 0 or above 2**32", d);
    if (!map.box[d] || map.box[d] > 256) return text("box %d: got %u, expected 1 to 256", d, map.box[d]);
    if (d && (map.strides[d] % 16 || map.strides[d] >= 1ull << 40))
      return text("stride %d: got %llu bytes, expected a multiple of 16 below 2**40", d,
                  static_cast<unsigned long long>(map.strides[d]));
  }
  if (row_bytes % 16) return text("innermost box: got %u bytes, expected a multiple of 16", row_bytes);
  if (map.swizzle && row_bytes > 16u << map.swizzle)
    return text("innermost box: got %u bytes, expected at most the swizzle's %u", row_bytes, 16u << map.swizzle);
  return "";
}

}  // namespace

int refuse_map(const TensorMap& map) {
  const std::string wrong = what_is_wrong(map);
  if (wrong.empty()) return 0;
  forget_diagnoses();
  report("bad_tensor_map", wrong);
  return 1;
}

}  // namespace cpu
