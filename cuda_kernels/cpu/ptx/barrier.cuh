// CPU twin of cuda_kernels/ptx/barrier.cuh.
#pragma once

#include <ptx/kernel.cuh>

DEVICE void bar_sync(Where where = Where::current()) { cpu::barrier_sync("bar_sync", 0, 0, where); }

DEVICE void bar_warp_sync(Where where = Where::current()) {
  if (cpu::Warp* warp = cpu::gather("bar_warp_sync", where, nullptr)) cpu::complete(*warp);
}
