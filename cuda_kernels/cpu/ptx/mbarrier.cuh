// CPU twin of cuda_kernels/ptx/mbarrier.cuh.
#pragma once

#include <ptx/kernel.cuh>
#include <runtime/mbarrier.h>
#include <runtime/memory.h>

DEVICE void mbarrier_init(uint32_t barrier, uint32_t arrivals, Where where = Where::current()) {
  cpu::mbarrier_init(barrier, arrivals, "mbarrier_init", where);
}

DEVICE void mbarrier_inval(uint32_t barrier, Where where = Where::current()) {
  cpu::mbarrier_inval(barrier, "mbarrier_inval", where);
}

DEVICE void mbarrier_arrive(uint32_t barrier, Where where = Where::current()) {
  cpu::mbarrier_arrive(barrier, 0, true, "mbarrier_arrive", where);
}

DEVICE void mbarrier_arrive_cluster(uint32_t barrier, Where where = Where::current()) {
  cpu::mbarrier_arrive(barrier | cpu::IN_CLUSTER, 0, true, "mbarrier_arrive_cluster", where);
}

DEVICE void mbarrier_expect_tx(uint32_t barrier, uint32_t bytes, Where where = Where::current()) {
  cpu::mbarrier_arrive(barrier, bytes, false, "mbarrier_expect_tx", where);
}

DEVICE void mbarrier_arrive_expect_tx(uint32_t barrier, uint32_t bytes, Where where = Where::current()) {
  cpu::mbarrier_arrive(barrier, bytes, true, "mbarrier_arrive_expect_tx", where);
}

DEVICE bool mbarrier_test_wait_parity(uint32_t barrier, uint32_t parity, Where where = Where::current()) {
  return cpu::mbarrier_test_wait(barrier, parity, "mbarrier_test_wait_parity", where);
}

DEVICE bool mbarrier_try_wait_parity(uint32_t barrier, uint32_t parity, Where where = Where::current()) {
  return cpu::mbarrier_try_wait(barrier, parity, "mbarrier_try_wait_parity", where);
}

DEVICE bool mbarrier_try_wait_parity_cluster(uint32_t barrier, uint32_t parity, Where where = Where::current()) {
  return cpu::mbarrier_try_wait(barrier, parity, "mbarrier_try_wait_parity_cluster", where);
}
