// CPU twin of cuda_kernels/ptx/fence_global.cuh.
#pragma once

#include <ptx/kernel.cuh>
#include <runtime/mbarrier.h>

DEVICE void fence_proxy_async_global(Where where = Where::current()) {
  cpu::fence_proxy_async("fence_proxy_async_global", where);
}
