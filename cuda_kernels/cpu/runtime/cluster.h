// What the blocks of a cluster, and the warpgroups of a block, do together.
#pragma once

#include <runtime/execution.h>

namespace cpu {

void barrier_cluster_arrive(const char* mnemonic, Where where);
void barrier_cluster_wait(const char* mnemonic, Where where);
// Threads that have returned no longer count.
void cluster_barrier_after_return(Cluster& cluster);

// Every thread of the warp has `registers` from now on; `increase` waits until the block's pool holds enough.
void setmaxnreg(int registers, bool increase, const char* mnemonic, Where where);

}  // namespace cpu
