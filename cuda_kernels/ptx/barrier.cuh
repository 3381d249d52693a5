// Barriers of a block and of a warp. PTX ISA 9.7.13: barrier, bar.warp.sync.
#pragma once

#include <ptx/kernel.cuh>

// All threads of the block; also orders their shared and global memory accesses.
DEVICE void bar_sync() { __syncthreads(); }

// All threads of the warp; also orders their memory accesses among themselves.
DEVICE void bar_warp_sync() { __syncwarp(); }
