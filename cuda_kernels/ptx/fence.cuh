// Fences: between memory proxies, for barriers of a cluster, and between blocks. PTX ISA 9.7.13.4: fence.
#pragma once

#include <ptx/kernel.cuh>

// Orders this thread's ordinary accesses to shared memory before the wgmma and bulk copies that follow a barrier: these
// see its stores, and overwrite only what it has already read.
DEVICE void fence_proxy_async_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// The same, global memory included.
DEVICE void fence_proxy_async() { asm volatile("fence.proxy.async;" ::: "memory"); }

// Makes the mbarriers that this thread initialized visible to bulk copies and to the blocks of the cluster.
DEVICE void fence_mbarrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

// Orders this thread's memory accesses as seen by all blocks of the grid.
DEVICE void fence_acq_rel_gpu() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }
