// Exchange of registers within a warp. PTX ISA 9.7.9: shfl.sync. All 32 lanes take part.
#pragma once

#include <ptx/kernel.cuh>

DEVICE float shfl_bfly(float value, int lane_mask) { return __shfl_xor_sync(0xffffffffu, value, lane_mask); }

// The value of lane `lane`. The compiler then knows that all lanes have the same value and may keep it in a uniform
// register; it cannot know that of a value computed from the thread index.
DEVICE int shfl_idx(int value, int lane) { return __shfl_sync(0xffffffffu, value, lane); }
