// Barriers of a block and of a warp. PTX ISA 9.7.13: barrier, bar.warp.sync.
#pragma once

#include <ptx/kernel.cuh>

// All threads of the block; also orders their shared and global memory accesses.
DEVICE void bar_sync() { __syncthreads(); }

// Named barriers: `threads` (whole warps) of the block meet at number `barrier`, 1 to 15; 0 is bar_sync()'s. Those that
// only arrive go on at once.
DEVICE void bar_sync(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
DEVICE void bar_arrive(int barrier, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// All threads of the warp; also orders their memory accesses among themselves.
DEVICE void bar_warp_sync() { __syncwarp(); }
