// CPU twin of cuda_kernels/ptx/smid.cuh: blocks are assigned to the multiprocessors in turn.
#pragma once

#include <ptx/device.cuh>

DEVICE int smid() {
  int count;
  multiprocessor_count(count);
  return ctaid_x() % count;
}
