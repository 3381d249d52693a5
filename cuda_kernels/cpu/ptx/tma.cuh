// CPU twin of cuda_kernels/ptx/tma.cuh.
#pragma once

#include <ptx/kernel.cuh>
#include <ptx/tensor_map.cuh>
#include <runtime/bulk.h>

template <int RANK>
DEVICE void cp_async_bulk_tensor_load(uint32_t shared, const TensorMap& map, const int (&at)[RANK], uint32_t mbarrier,
                                      Where where = Where::current()) {
  constexpr auto MNEMONIC = "cp_async_bulk_tensor_load";
  cpu::bulk_load(cpu::plan_tensor(map, at, RANK, shared, MNEMONIC, where), mbarrier, MNEMONIC, where);
}

template <int RANK>
DEVICE void cp_async_bulk_tensor_load_multicast(uint32_t shared, const TensorMap& map, const int (&at)[RANK],
                                                uint32_t mbarrier, uint16_t blocks, Where where = Where::current()) {
  constexpr auto MNEMONIC = "cp_async_bulk_tensor_load_multicast";
  cpu::bulk_load_multicast(cpu::plan_tensor(map, at, RANK, shared, MNEMONIC, where), mbarrier, blocks, MNEMONIC, where);
}

// Unlike a load's, no coordinate may be negative; elements past the tensor's end are not written.
template <int RANK>
DEVICE void cp_async_bulk_tensor_store(const TensorMap& map, const int (&at)[RANK], uint32_t shared,
                                       Where where = Where::current()) {
  constexpr auto MNEMONIC = "cp_async_bulk_tensor_store";
  cpu::bulk_store(cpu::plan_tensor(map, at, RANK, shared, MNEMONIC, where), MNEMONIC, where);
}

DEVICE void cp_async_bulk_load(uint32_t shared, const void* global, uint32_t bytes, uint32_t mbarrier,
                               Where where = Where::current()) {
  cpu::bulk_load(cpu::plan_plain(global, shared, bytes), mbarrier, "cp_async_bulk_load", where);
}

DEVICE void cp_async_bulk_store(void* global, uint32_t shared, uint32_t bytes, Where where = Where::current()) {
  cpu::bulk_store(cpu::plan_plain(global, shared, bytes), "cp_async_bulk_store", where);
}

DEVICE void cp_async_bulk_commit_group(Where where = Where::current()) {
  cpu::bulk_commit_group("cp_async_bulk_commit_group", where);
}

template <int PENDING>
DEVICE void cp_async_bulk_wait_group(Where where = Where::current()) {
  cpu::bulk_wait_group(PENDING, false, "cp_async_bulk_wait_group", where);
}

template <int PENDING>
DEVICE void cp_async_bulk_wait_group_read(Where where = Where::current()) {
  cpu::bulk_wait_group(PENDING, true, "cp_async_bulk_wait_group_read", where);
}

DEVICE void prefetch_tensormap(const TensorMap&, Where where = Where::current()) {
  cpu::count_thread("prefetch_tensormap", where);
}
