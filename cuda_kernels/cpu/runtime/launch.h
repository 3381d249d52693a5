// Runs a grid: clusters in parallel OS threads.
#pragma once

#include <runtime/execution.h>

namespace cpu {

// 0, or 1 when something was diagnosed.
int launch_grid(const Launch& launch);

}  // namespace cpu
