// What the blocks of a cluster, and the warpgroups of a block, do together.
#pragma once

#include <array>

#include <runtime/execution.h>

namespace cpu {

void barrier_cluster_arrive(const char* mnemonic, Where where);
void barrier_cluster_wait(const char* mnemonic, Where where);
// Threads that have returned no longer count.
void cluster_barrier_after_return(Cluster& cluster);

// `warp` executes an instruction that its warpgroup executes together: all four warps the same, in the same order.
void in_step(Warp& warp, const char* mnemonic, Where where, std::array<uint64_t, 3> operands = {});
// Nobody is left to execute what a warp of its group executed.
void warpgroups_after_return(Thread& self);

// Every thread of the warp has `registers` from now on; `increase` waits until the block's pool holds enough.
void setmaxnreg(int registers, bool increase, const char* mnemonic, Where where);

}  // namespace cpu
