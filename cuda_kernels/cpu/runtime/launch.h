// Runs a grid: clusters in parallel OS threads.
#pragma once

#include <map>

#include <runtime/execution.h>

namespace cpu {

// Launch bounds of this library's kernels: blocks by threads.
std::map<int, int>& bounds();
// A kernel of this library wants `blocks` blocks of `threads` threads to share a multiprocessor. Always true.
bool bound(int threads, int blocks);
// How many blocks share one; 1 if no kernel said so.
int blocks_together(int threads);

// 0, or 1 when something was diagnosed.
int launch_grid(const Launch& launch);

}  // namespace cpu
