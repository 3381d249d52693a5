// Queries about the current device. CUDA runtime: cudaDeviceGetAttribute.
#pragma once

#include <ptx/kernel.cuh>

// Of the device that is current at the first call: the harness loads a library anew for each GPU.
inline Error multiprocessor_count(int& count) {
  struct Answer {
    Error error;
    int count;
  };
  static const Answer answer = [] {
    int device, found = 0;
    Error error = cudaGetDevice(&device);
    if (error == cudaSuccess) error = cudaDeviceGetAttribute(&found, cudaDevAttrMultiProcessorCount, device);
    return Answer{error, found};
  }();
  count = answer.count;
  return answer.error;
}
