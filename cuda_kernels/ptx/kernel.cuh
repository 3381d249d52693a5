// Kernel attributes, special registers, the block's shared memory, and launching.
#pragma once

#include <cstdint>
#include <cuda_runtime.h>

#define DEVICE __device__ __forceinline__

// A kernel with `threads` threads per block, of which at least `blocks` blocks should fit on a multiprocessor.
#define KERNEL(threads, blocks) __global__ void __launch_bounds__(threads, blocks)

using Error = cudaError_t;

// Source location of a call. The CPU runtime reports it in diagnoses; on the GPU it is empty.
struct Where {
  DEVICE static constexpr Where current() { return {}; }
};

// PTX ISA, special registers: %tid, %ctaid.
DEVICE int tid_x() { return static_cast<int>(threadIdx.x); }
DEVICE int ctaid_x() { return static_cast<int>(blockIdx.x); }
DEVICE int ctaid_y() { return static_cast<int>(blockIdx.y); }
DEVICE int ctaid_z() { return static_cast<int>(blockIdx.z); }

// Base of the block's dynamic shared memory, aligned to 1024 bytes, as an address in the shared state space.
DEVICE uint32_t shared_base() {
  extern __shared__ __align__(1024) unsigned char shared_memory[];
  return static_cast<uint32_t>(__cvta_generic_to_shared(shared_memory));
}

struct Grid {
  int x, y, z;
};

// Launches kernel(params) on `grid` blocks of `threads` threads with `shared_bytes` of dynamic shared memory.
template <auto kernel, class Params>
Error launch_kernel(Grid grid, int threads, int shared_bytes, void* stream, const Params& params) {
  // A kernel must opt in to more than 48 KB of shared memory, on each GPU. The harness loads a library anew for each
  // GPU, so that once per library is enough.
  static const Error allowed = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
  if (allowed != cudaSuccess) return allowed;
  kernel<<<dim3(grid.x, grid.y, grid.z), threads, shared_bytes, static_cast<cudaStream_t>(stream)>>>(params);
  return cudaGetLastError();
}

// Makes `value` opaque to the compiler: nothing computed from it can be hoisted above this point.
DEVICE void register_fence(uint32_t& value) { asm volatile("" : "+r"(value)); }
