// CPU twin of cuda_kernels/ptx/clock.cuh: a multiprocessor with a clock of 1 GHz.
#pragma once

#include <chrono>
#include <cstdint>

#include <ptx/kernel.cuh>

DEVICE uint64_t globaltimer() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

DEVICE uint64_t sm_clock64() { return globaltimer(); }
