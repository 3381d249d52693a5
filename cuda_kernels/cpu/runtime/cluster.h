// What the blocks of a cluster and the warpgroups of a block do together.
#pragma once

#include <array>

#include <runtime/execution.h>

namespace cpu {

void barrier_cluster_arrive(const char* mnemonic, Where where);
void barrier_cluster_wait(const char* mnemonic, Where where);
// Threads that have returned no longer count.
void cluster_barrier_after_return(Cluster& cluster);

// `warp` executes an instruction that its warpgroup executes together: the same in all four warps, in the same order.
void in_step(Warp& warp, const char* mnemonic, Where where, std::array<uint64_t, 3> operands = {});
// Reports an instruction that other warps of the warpgroup executed, but this thread's warp no longer can.
void warpgroups_after_return(Thread& self);

// Every thread of the warp has `registers` registers from now on; `increase` waits until the block's pool has enough.
void setmaxnreg(int registers, bool increase, const char* mnemonic, Where where);

}  // namespace cpu
