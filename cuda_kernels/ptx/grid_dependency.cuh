// A kernel that starts while the one before it in the stream still runs. PTX ISA 9.7.13: griddepcontrol. CUDA runtime:
// cudaLaunchAttributeProgrammaticStreamSerialization.
#pragma once

#include <ptx/kernel.cuh>

// Blocks of the next kernel may start once every block of this one has said so or ended. They see nothing of what this
// one writes before they have waited.
DEVICE void griddepcontrol_launch_dependents() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
// Returns once the kernel before this one has ended, and all that it wrote can be seen.
DEVICE void griddepcontrol_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

// launch_kernel of a kernel that may start before the last one has ended.
template <auto kernel, class Params>
Error launch_kernel_early(Grid grid, int threads, int shared_bytes, void* stream, const Params& params) {
  static const Error allowed = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
  if (allowed != cudaSuccess) return allowed;
  cudaLaunchAttribute attribute;
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(grid.x, grid.y, grid.z);
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared_bytes;
  config.stream = static_cast<cudaStream_t>(stream);
  config.attrs = &attribute;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, kernel, params);
}
