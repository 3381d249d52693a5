// CPU twin of cuda_kernels/ptx/device.cuh.
#pragma once

#include <ptx/kernel.cuh>

// Few, so that a block that stays gets several tiles of a small problem.
inline Error multiprocessor_count(int& count) {
  count = 2;
  return 0;
}
