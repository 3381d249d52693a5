// CPU twin of cuda_kernels/ptx/fence.cuh.
#pragma once

#include <atomic>

#include <ptx/kernel.cuh>
#include <runtime/mbarrier.h>

// Stricter than PTX, whose memory model accepts a proxy fence anywhere on the way from one access to the other inside a
// block. Here the thread that made the ordinary access fences it, before the barrier, as NVIDIA's libraries do.
DEVICE void fence_proxy_async_shared(Where where = Where::current()) {
  cpu::fence_proxy_async("fence_proxy_async_shared", where);
}

DEVICE void fence_proxy_async(Where where = Where::current()) { cpu::fence_proxy_async("fence_proxy_async", where); }

DEVICE void fence_mbarrier_init(Where where = Where::current()) {
  cpu::fence_mbarrier_init("fence_mbarrier_init", where);
}

DEVICE void fence_acq_rel_gpu(Where where = Where::current()) {
  cpu::count_thread("fence_acq_rel_gpu", where);
  std::atomic_thread_fence(std::memory_order_acq_rel);
}
