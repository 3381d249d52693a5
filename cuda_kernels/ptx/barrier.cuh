// Barriers for a thread block and for a warp. PTX ISA 9.7.13: barrier, bar.warp.sync.
#pragma once

#include <ptx/kernel.cuh>

// All threads of the block; also orders their accesses to shared and global memory.
DEVICE void bar_sync() { __syncthreads(); }

// Named barriers: `threads` threads of the block, in whole warps, meet at barrier number `barrier`, 1 to 15 (bar_sync()
// uses 0). bar_arrive counts its threads as arrived but does not wait.
DEVICE void bar_sync(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
DEVICE void bar_arrive(int barrier, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// All lanes of the warp; also orders their memory accesses among themselves.
DEVICE void bar_warp_sync() { __syncwarp(); }
