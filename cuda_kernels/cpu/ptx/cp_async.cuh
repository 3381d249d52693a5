// CPU twin of cuda_kernels/ptx/cp_async.cuh.
#pragma once

#include <ptx/kernel.cuh>
#include <runtime/async.h>

DEVICE void cp_async_cg_16(uint32_t shared, const void* global, Where where = Where::current()) {
  cpu::cp_async(shared, global, 16, "cp_async_cg_16", where);
}

DEVICE void cp_async_cg_16_zfill(uint32_t shared, const void* global, uint32_t bytes, Where where = Where::current()) {
  cpu::cp_async(shared, global, bytes, "cp_async_cg_16_zfill", where);
}

DEVICE void cp_async_commit_group(Where where = Where::current()) {
  cpu::cp_async_commit_group("cp_async_commit_group", where);
}

template <int PENDING>
DEVICE void cp_async_wait_group(Where where = Where::current()) {
  cpu::cp_async_wait_group(PENDING, "cp_async_wait_group", where);
}
