// CPU twin of cuda_kernels/ptx/red.cuh.
#pragma once

#include <ptx/kernel.cuh>
#include <runtime/wgmma.h>

DEVICE void red_add(float* sum, float value, Where where = Where::current()) {
  cpu::check_accumulated(value, "red_add", where);
  cpu::global_add(sum, &value, 1, "red_add", where);
}

DEVICE void red_add_v4(float* sums, const float4& values, Where where = Where::current()) {
  cpu::check_accumulated(values, "red_add_v4", where);
  const float each[] = {values.x, values.y, values.z, values.w};
  cpu::global_add(sums, each, 4, "red_add_v4", where);
}
