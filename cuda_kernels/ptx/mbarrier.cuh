// Barriers in shared memory that count arrivals and bytes. PTX ISA 9.7.13.15: mbarrier.
// A phase completes once all expected arrivals and all expected bytes have come in; the next phase then starts by
// itself. A wait on a parity passes once the phase of that parity is complete. Phase 0 has parity 0; on a freshly
// initialized barrier a wait on parity 1 passes immediately.
#pragma once

#include <cstdint>

#include <ptx/kernel.cuh>

// `barrier` is a shared address, a multiple of 8; `arrivals` is the count per phase. One thread initializes. Other
// threads need a barrier afterwards; bulk copies also need fence_mbarrier_init or fence_proxy_async before that.
DEVICE void mbarrier_init(uint32_t barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// Frees the memory for other uses; no thread may still be waiting.
DEVICE void mbarrier_inval(uint32_t barrier) {
  asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

// One arrival; what this thread did before becomes visible to the threads that wait.
DEVICE void mbarrier_arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// The same on a barrier of another block of the cluster (an address from mapa).
DEVICE void mbarrier_arrive_cluster(uint32_t barrier) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// The current phase expects `bytes` more bytes.
DEVICE void mbarrier_expect_tx(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// Both, in this order: no phase can complete in between.
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

// The same, but sleeps for up to a system-dependent time: call it in a loop.
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

// The same for a barrier on which other blocks of the cluster arrive.
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
