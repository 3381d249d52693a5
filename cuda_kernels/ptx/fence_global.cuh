// A fence between memory proxies for global memory alone. PTX ISA 9.7.13.4: fence.
#pragma once

#include <ptx/kernel.cuh>

// Orders this thread's ordinary accesses to global memory, and what they acquired, before its bulk copies that follow.
// Unlike fence_proxy_async it does not wait for other memory accesses of the thread.
DEVICE void fence_proxy_async_global() { asm volatile("fence.proxy.async.global;" ::: "memory"); }
