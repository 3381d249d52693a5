// Queries about the current device. CUDA runtime: cudaDeviceGetAttribute.
#pragma once

#include <ptx/kernel.cuh>

inline Error multiprocessor_count(int& count) {
  int device;
  const Error error = cudaGetDevice(&device);
  return error == cudaSuccess ? cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device) : error;
}
