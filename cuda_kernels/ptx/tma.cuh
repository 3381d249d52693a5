// Bulk copies between global and shared memory by the tensor memory accelerator. PTX ISA 9.7.9.25: cp.async.bulk,
// cp.async.bulk.tensor. One thread issues a copy. A load completes its bytes on an mbarrier; a store belongs to a group
// of its thread. Shared addresses are multiples of 128 (of 1024 where a 128-byte swizzle pattern must start). A box
// starts at a multiple of 16 bytes in the innermost dimension; otherwise the kernel ends with an illegal instruction.
#pragma once

#include <cstdint>

#include <ptx/kernel.cuh>
#include <ptx/tensor_map.cuh>

// Copies the box of `map` that starts at element `at`, innermost dimension first, to `shared`. All its bytes complete
// on `mbarrier`, including those outside the tensor.
template <int RANK>
DEVICE void cp_async_bulk_tensor_load(uint32_t shared, const TensorMap& map, const int (&at)[RANK], uint32_t mbarrier) {
  if constexpr (RANK == 2)
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], "
        "[%2];" ::"r"(shared),
        "l"(&map), "r"(mbarrier), "r"(at[0]), "r"(at[1])
        : "memory");
  else if constexpr (RANK == 3)
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], "
        "[%2];" ::"r"(shared),
        "l"(&map), "r"(mbarrier), "r"(at[0]), "r"(at[1]), "r"(at[2])
        : "memory");
  else if constexpr (RANK == 4)
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, "
        "%6}], [%2];" ::"r"(shared),
        "l"(&map), "r"(mbarrier), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3])
        : "memory");
  else if constexpr (RANK == 5)
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, "
        "%7}], [%2];" ::"r"(shared),
        "l"(&map), "r"(mbarrier), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(at[4])
        : "memory");
}

// The same, to the same address in every block of the cluster whose bit in `blocks` is set; the bytes complete on each
// block's own mbarrier at the given address.
template <int RANK>
DEVICE void cp_async_bulk_tensor_load_multicast(uint32_t shared, const TensorMap& map, const int (&at)[RANK],
                                                uint32_t mbarrier, uint16_t blocks) {
  if constexpr (RANK == 2)
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
        "[%1, {%4, %5}], [%2], %3;" ::"r"(shared),
        "l"(&map), "r"(mbarrier), "h"(blocks), "r"(at[0]), "r"(at[1])
        : "memory");
  else if constexpr (RANK == 3)
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
        "[%1, {%4, %5, %6}], [%2], %3;" ::"r"(shared),
        "l"(&map), "r"(mbarrier), "h"(blocks), "r"(at[0]), "r"(at[1]), "r"(at[2])
        : "memory");
  else if constexpr (RANK == 4)
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
        "[%1, {%4, %5, %6, %7}], [%2], %3;" ::"r"(shared),
        "l"(&map), "r"(mbarrier), "h"(blocks), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3])
        : "memory");
  else if constexpr (RANK == 5)
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
        "[%1, {%4, %5, %6, %7, %8}], [%2], %3;" ::"r"(shared),
        "l"(&map), "r"(mbarrier), "h"(blocks), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(at[4])
        : "memory");
}

// From shared to global memory; elements past the tensor's end are not written. Unlike a load's, no coordinate may be
// negative (CUDA programming guide). The source may be reused after the wait for its group.
template <int RANK>
DEVICE void cp_async_bulk_tensor_store(const TensorMap& map, const int (&at)[RANK], uint32_t shared) {
  if constexpr (RANK == 2)
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%1, {%2, %3}], [%0];" ::"r"(shared),
                 "l"(&map), "r"(at[0]), "r"(at[1])
                 : "memory");
  else if constexpr (RANK == 3)
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%1, {%2, %3, %4}], [%0];" ::"r"(shared),
                 "l"(&map), "r"(at[0]), "r"(at[1]), "r"(at[2])
                 : "memory");
  else if constexpr (RANK == 4)
    asm volatile(
        "cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%1, {%2, %3, %4, %5}], [%0];" ::"r"(shared),
        "l"(&map), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3])
        : "memory");
  else if constexpr (RANK == 5)
    asm volatile(
        "cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group [%1, {%2, %3, %4, %5, %6}], [%0];" ::"r"(shared),
        "l"(&map), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(at[4])
        : "memory");
}

// Copies `bytes` contiguous bytes: a multiple of 16, as are both addresses.
DEVICE void cp_async_bulk_load(uint32_t shared, const void* global, uint32_t bytes, uint32_t mbarrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared),
               "l"(global), "r"(bytes), "r"(mbarrier)
               : "memory");
}

DEVICE void cp_async_bulk_store(void* global, uint32_t shared, uint32_t bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(global), "r"(shared), "r"(bytes)
               : "memory");
}

// Commits this thread's stores since the last commit as one group.
DEVICE void cp_async_bulk_commit_group() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Waits until all but the `PENDING` newest groups of this thread are written to global memory ...
template <int PENDING>
DEVICE void cp_async_bulk_wait_group() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(PENDING) : "memory");
}

// ... or have been read from shared memory, which is enough to reuse it.
template <int PENDING>
DEVICE void cp_async_bulk_wait_group_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
}

// Prefetches the map before its first use.
DEVICE void prefetch_tensormap(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}
