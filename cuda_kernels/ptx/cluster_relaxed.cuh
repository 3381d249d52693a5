// The cluster's barrier without a release. PTX ISA 9.7.13.3: barrier.cluster.arrive.relaxed.
#pragma once

#include <ptx/cluster.cuh>

// Arrives and publishes no writes, which spares a fence of the GPU (MEMBAR.ALL.GPU): enough behind fence_mbarrier_init,
// which publishes barriers by itself, and before the end of a block, where nothing is left to publish.
DEVICE void barrier_cluster_arrive_relaxed() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
