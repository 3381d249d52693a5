// Barriers of a block, numbered 0 to 15. All lanes of a warp arrive together (.aligned).
#pragma once

#include <runtime/execution.h>

namespace cpu {

// `expected` counts threads, in whole warps; 0: all threads of the block that have not returned.
void barrier_sync(const char* mnemonic, uint32_t number, int expected, Where where);
// Does not wait.
void barrier_arrive(const char* mnemonic, uint32_t number, int expected, Where where);
// Threads that have returned no longer count at a barrier of the whole block.
void barriers_after_return(Block& block);
// All threads of the warp; orders their memory accesses.
void barrier_warp(const char* mnemonic, Where where);

}  // namespace cpu
