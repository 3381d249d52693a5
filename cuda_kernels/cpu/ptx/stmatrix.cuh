// CPU twin of cuda_kernels/ptx/stmatrix.cuh.
#pragma once

#include <ptx/kernel.cuh>
#include <runtime/matrix.h>

DEVICE void stmatrix_x2(uint32_t address, const uint32_t (&r)[2], Where where = Where::current()) {
  cpu::stmatrix(r, 2, false, address, "stmatrix_x2", where);
}

DEVICE void stmatrix_x2_trans(uint32_t address, const uint32_t (&r)[2], Where where = Where::current()) {
  cpu::stmatrix(r, 2, true, address, "stmatrix_x2_trans", where);
}

DEVICE void stmatrix_x4(uint32_t address, const uint32_t (&r)[4], Where where = Where::current()) {
  cpu::stmatrix(r, 4, false, address, "stmatrix_x4", where);
}

DEVICE void stmatrix_x4_trans(uint32_t address, const uint32_t (&r)[4], Where where = Where::current()) {
  cpu::stmatrix(r, 4, true, address, "stmatrix_x4_trans", where);
}
