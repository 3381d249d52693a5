// Moves registers between warpgroups. PTX ISA 9.7.19.5: setmaxnreg.
// All warps of a warpgroup must execute it. The block's pool is what it was launched with; ptxas ignores the
// instruction in a kernel without launch bounds. REGISTERS is per thread: a multiple of 8 from 24 to 256.
#pragma once

#include <ptx/kernel.cuh>

// Waits until the pool has enough free registers.
template <int REGISTERS>
DEVICE void setmaxnreg_inc() {
  static_assert(REGISTERS % 8 == 0 && REGISTERS >= 24 && REGISTERS <= 256);
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

template <int REGISTERS>
DEVICE void setmaxnreg_dec() {
  static_assert(REGISTERS % 8 == 0 && REGISTERS >= 24 && REGISTERS <= 256);
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}
