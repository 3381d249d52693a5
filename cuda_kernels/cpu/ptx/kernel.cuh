// CPU twin: a kernel is a function that every fiber calls. See cuda_kernels/ptx/kernel.cuh.
#pragma once

#include <cstdint>
#include <vector_functions.h>
#include <vector_types.h>

#include <runtime/launch.h>
#include <runtime/memory.h>

#define DEVICE inline
// Launch bounds are not part of a function's type: they are registered when the library is loaded.
#define KERNEL(threads, blocks) KERNEL_NUMBERED(threads, blocks, __COUNTER__)
#define KERNEL_NUMBERED(threads, blocks, number) KERNEL_NAMED(threads, blocks, number)
#define KERNEL_NAMED(threads, blocks, number) \
  [[maybe_unused]] const bool is_bounded_##number = cpu::bound(threads, blocks); \
  void

using Error = int;

using cpu::Where;

DEVICE int tid_x() { return cpu::current().tid; }
DEVICE int ctaid_x() { return cpu::current().block->ctaid.x; }
DEVICE int ctaid_y() { return cpu::current().block->ctaid.y; }
DEVICE int ctaid_z() { return cpu::current().block->ctaid.z; }

DEVICE uint32_t shared_base() { return cpu::SHARED_BASE; }

struct Grid {
  int x, y, z;
};

// Returns 0, or 1 if `diagnosis` has something to say. Runs to completion before it returns; `stream` is ignored.
template <auto kernel, class Params>
Error launch_kernel(Grid grid, int threads, int shared_bytes, void* stream, const Params& params) {
  const auto call = [](const void* bytes) { kernel(*static_cast<const Params*>(bytes)); };
  return cpu::launch_grid(
      {{grid.x, grid.y, grid.z}, {1, 1, 1}, threads, static_cast<uint32_t>(shared_bytes), call, &params});
}

DEVICE void register_fence(uint32_t& value) { asm volatile("" : "+r"(value)); }
