// Fences: memory of other proxies, barriers of a cluster, other blocks. PTX ISA 9.7.13.4: fence.
#pragma once

#include <ptx/kernel.cuh>

// What this thread read and wrote in shared memory by ordinary accesses comes before wgmma and bulk copies that follow
// a barrier: they see its stores, and overwrite only what it has read.
DEVICE void fence_proxy_async_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// The same for global memory too.
DEVICE void fence_proxy_async() { asm volatile("fence.proxy.async;" ::: "memory"); }

// The mbarriers that this thread initialized are visible to bulk copies and to the blocks of the cluster.
DEVICE void fence_mbarrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

// Orders this thread's accesses for all blocks of the grid.
DEVICE void fence_acq_rel_gpu() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }
