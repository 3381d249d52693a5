// CPU twin of cuda_kernels/ptx/grid_dependency.cuh: a launch has ended before the next one begins.
#pragma once

#include <ptx/kernel.cuh>

DEVICE void griddepcontrol_launch_dependents() {}
DEVICE void griddepcontrol_wait() {}

template <auto kernel, class Params>
Error launch_kernel_early(Grid grid, int threads, int shared_bytes, void* stream, const Params& params) {
  return launch_kernel<kernel>(grid, threads, shared_bytes, stream, params);
}
