// A TMA store that adds to global memory, in PTX.
#include <cstdint>

extern "C" __global__ void add(const __grid_constant__ uint64_t map, uint32_t from) {
  asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {%1, %1}], [%2];" ::"l"(map),
               "r"(0), "r"(from)
               : "memory");
}
