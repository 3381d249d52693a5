// Exchange of registers inside a warp. PTX ISA 9.7.9: shfl.sync. All 32 lanes take part.
#pragma once

#include <ptx/kernel.cuh>

DEVICE float shfl_bfly(float value, int lane_mask) { return __shfl_xor_sync(0xffffffffu, value, lane_mask); }
