// CPU twin of cuda_kernels/ptx/device.cuh.
#pragma once

#include <ptx/kernel.cuh>

// A small number, so that a persistent block gets several tiles even of a small problem.
inline Error multiprocessor_count(int& count) {
  count = 2;
  return 0;
}
