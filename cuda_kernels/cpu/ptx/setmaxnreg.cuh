// CPU twin of cuda_kernels/ptx/setmaxnreg.cuh.
#pragma once

#include <ptx/kernel.cuh>
#include <runtime/cluster.h>

template <int REGISTERS>
DEVICE void setmaxnreg_inc(Where where = Where::current()) {
  static_assert(REGISTERS % 8 == 0 && REGISTERS >= 24 && REGISTERS <= 256);
  cpu::setmaxnreg(REGISTERS, true, "setmaxnreg_inc", where);
}

template <int REGISTERS>
DEVICE void setmaxnreg_dec(Where where = Where::current()) {
  static_assert(REGISTERS % 8 == 0 && REGISTERS >= 24 && REGISTERS <= 256);
  cpu::setmaxnreg(REGISTERS, false, "setmaxnreg_dec", where);
}
