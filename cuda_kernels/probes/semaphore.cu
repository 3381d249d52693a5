// A flag that is released and waited for, in PTX.
#include <cstdint>

extern "C" __global__ void wait_for(uint32_t* flags) {
  uint32_t was = 0;
  asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(flags) : "memory");
  while (was != 1)
    asm volatile("atom.acquire.gpu.global.cas.b32 %0, [%1], 1, 0;" : "=r"(was) : "l"(flags + 1) : "memory");
}
