// One product by two blocks: tcgen05.mma on a CTA pair, in PTX. Compiled only; the operands are placeholders.
#include <cstdint>

extern "C" __global__ void multiply(uint32_t d, uint64_t a, uint64_t b, uint32_t instruction) {
  asm volatile(
      "{ .reg .pred accumulate; setp.ne.b32 accumulate, %3, 0;"
      "tcgen05.mma.cta_group::2.kind::f16 [%0], %1, %2, %3, accumulate; }" ::"r"(d),
      "l"(a), "l"(b), "r"(instruction));
}
