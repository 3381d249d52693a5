// A load whose cache lines L2 evicts last, by an L2 policy in PTX.
#include <cstdint>

#include <ptx/createpolicy.cuh>

extern "C" __global__ void copy(const float* from, float* to) {
  float x;
  asm volatile("ld.global.L2::cache_hint.f32 %0, [%1], %2;"
               : "=f"(x)
               : "l"(from + threadIdx.x), "l"(createpolicy_evict_last()));
  to[threadIdx.x] = x;
}
