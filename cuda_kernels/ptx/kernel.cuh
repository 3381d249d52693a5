// Kernel attributes, special registers, the block's shared memory, and launching.
#pragma once

#include <cstdint>
#include <cuda_runtime.h>

#define DEVICE __device__ __forceinline__

// A kernel of `threads` threads of which at least `blocks` blocks should fit on a multiprocessor.
#define KERNEL(threads, blocks) __global__ void __launch_bounds__(threads, blocks)

using Error = cudaError_t;

// The place of a call in a kernel file: something on the CPU, which reports it, and nothing here.
struct Where {
  DEVICE static constexpr Where current() { return {}; }
};

// PTX ISA, special registers: %tid, %ctaid.
DEVICE int tid_x() { return static_cast<int>(threadIdx.x); }
DEVICE int ctaid_x() { return static_cast<int>(blockIdx.x); }
DEVICE int ctaid_y() { return static_cast<int>(blockIdx.y); }
DEVICE int ctaid_z() { return static_cast<int>(blockIdx.z); }

// The block's dynamic shared memory, aligned to 1024 bytes, as an address in the shared state space.
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
  // Above 48 KB a kernel must ask for its shared memory; once per library is enough.
  static const Error allowed = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
  if (allowed != cudaSuccess) return allowed;
  kernel<<<dim3(grid.x, grid.y, grid.z), threads, shared_bytes, static_cast<cudaStream_t>(stream)>>>(params);
  return cudaGetLastError();
}

// Makes the compiler forget what it knows about `value`: nothing computed from it can be hoisted above this point.
DEVICE void register_fence(uint32_t& value) { asm volatile("" : "+r"(value)); }
