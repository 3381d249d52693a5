// CPU twin of cuda_kernels/ptx/ldmatrix.cuh.
#pragma once

#include <ptx/kernel.cuh>
#include <runtime/matrix.h>

DEVICE void ldmatrix_x2(uint32_t (&r)[2], uint32_t address, Where where = Where::current()) {
  cpu::ldmatrix(r, 2, false, address, "ldmatrix_x2", where);
}

DEVICE void ldmatrix_x2_trans(uint32_t (&r)[2], uint32_t address, Where where = Where::current()) {
  cpu::ldmatrix(r, 2, true, address, "ldmatrix_x2_trans", where);
}

DEVICE void ldmatrix_x4(uint32_t (&r)[4], uint32_t address, Where where = Where::current()) {
  cpu::ldmatrix(r, 4, false, address, "ldmatrix_x4", where);
}

DEVICE void ldmatrix_x4_trans(uint32_t (&r)[4], uint32_t address, Where where = Where::current()) {
  cpu::ldmatrix(r, 4, true, address, "ldmatrix_x4_trans", where);
}
