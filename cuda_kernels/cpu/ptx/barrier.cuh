// CPU twin of cuda_kernels/ptx/barrier.cuh.
#pragma once

#include <ptx/kernel.cuh>
#include <runtime/barrier.h>

DEVICE void bar_sync(Where where = Where::current()) { cpu::barrier_sync("bar_sync", 0, 0, where); }

DEVICE void bar_sync(int barrier, int threads, Where where = Where::current()) {
  cpu::barrier_sync("bar_sync", barrier, threads, where);
}
DEVICE void bar_arrive(int barrier, int threads, Where where = Where::current()) {
  cpu::barrier_arrive("bar_arrive", barrier, threads, where);
}

DEVICE void bar_warp_sync(Where where = Where::current()) { cpu::barrier_warp("bar_warp_sync", where); }
