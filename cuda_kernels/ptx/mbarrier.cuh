// Barriers in shared memory that count arrivals and bytes. PTX ISA 9.7.13.15: mbarrier.
// A phase completes when all expected arrivals and all expected bytes are there; then the next one begins by itself.
// Waiting on a parity passes once the phase of that parity is complete: phase 0 has parity 0, and on a fresh barrier
// parity 1 passes at once.
#pragma once

#include <cstdint>

#include <ptx/kernel.cuh>

// `barrier`: a shared address, a multiple of 8; `arrivals` per phase. One thread does it; the others need a barrier
// after it, bulk copies also fence_mbarrier_init or fence_proxy_async before that.
DEVICE void mbarrier_init(uint32_t barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// Frees the memory for other uses; nobody may be waiting.
DEVICE void mbarrier_inval(uint32_t barrier) {
  asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

// One arrival; what this thread did before is visible to those who wait.
DEVICE void mbarrier_arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// The same at a barrier of another block of the cluster (an address from mapa).
DEVICE void mbarrier_arrive_cluster(uint32_t barrier) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// The current phase waits for `bytes` more.
DEVICE void mbarrier_expect_tx(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// Both, in this order: no phase completes between.
DEVICE void mbarrier_arrive_expect_tx(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

// Is the phase of this parity complete?
DEVICE bool mbarrier_test_wait_parity(uint32_t barrier, uint32_t parity) {
  uint32_t done;
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "mbarrier.test_wait.parity.acquire.cta.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;\n"
      "}"
      : "=r"(done)
      : "r"(barrier), "r"(parity)
      : "memory");
  return done;
}

// The same, but sleeps up to a time limit of the system's choice: call it in a loop.
DEVICE bool mbarrier_try_wait_parity(uint32_t barrier, uint32_t parity, Where = {}) {
  uint32_t done;
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;\n"
      "}"
      : "=r"(done)
      : "r"(barrier), "r"(parity)
      : "memory");
  return done;
}

// The same for a barrier at which other blocks of the cluster arrive.
DEVICE bool mbarrier_try_wait_parity_cluster(uint32_t barrier, uint32_t parity) {
  uint32_t done;
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;\n"
      "}"
      : "=r"(done)
      : "r"(barrier), "r"(parity)
      : "memory");
  return done;
}
