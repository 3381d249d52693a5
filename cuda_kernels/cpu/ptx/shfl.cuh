// CPU twin of cuda_kernels/ptx/shfl.cuh.
#pragma once

#include <ptx/kernel.cuh>
#include <runtime/shuffle.h>
#include <runtime/wgmma.h>

DEVICE float shfl_bfly(float value, int lane_mask, Where where = Where::current()) {
  cpu::check_accumulated(value, "shfl_bfly", where);
  return cpu::shuffle(value, cpu::current().lane ^ lane_mask, "shfl_bfly", where);
}

DEVICE int shfl_idx(int value, int lane, Where where = Where::current()) {
  return cpu::shuffle(value, lane, "shfl_idx", where);
}
