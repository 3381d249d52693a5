// One TMA load of four rows that indices name, in PTX. Compiled only; the operands are placeholders.
#include <cstdint>

extern "C" __global__ void load(uint64_t map, uint32_t to, uint32_t barrier, int4 rows) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, "
      "%5, %6}], [%7];" ::"r"(to),
      "l"(map), "r"(0), "r"(rows.x), "r"(rows.y), "r"(rows.z), "r"(rows.w), "r"(barrier)
      : "memory");
}
