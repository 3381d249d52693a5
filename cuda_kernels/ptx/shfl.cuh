// Exchange of registers inside a warp. PTX ISA 9.7.9: shfl.sync. All 32 lanes take part.
#pragma once

#include <ptx/kernel.cuh>

DEVICE float shfl_bfly(float value, int lane_mask) { return __shfl_xor_sync(0xffffffffu, value, lane_mask); }

// The value of lane `lane`. The compiler then knows that it is the same in all lanes, which an address computed from
// the thread index is not to it, and may keep it in a uniform register.
DEVICE int shfl_idx(int value, int lane) { return __shfl_sync(0xffffffffu, value, lane); }
