// How much of the tensor cores do additions leave that pause? As additions.cu, but each warp waits for an answer from
// shared memory after every ROOF_OPERATIONS, as the steps of a softmax wait for their products.
#include <attention/roofs.cuh>

namespace {

KERNEL(THREADS, 1) waiting_additions(const RoofArgs args) {
  Roof roof(args);
  if (roof.multiplies()) return saturate<ROOF_COLUMNS>(roof);
  float x[16];
#pragma unroll
  for (int i = 0; i < 16; ++i) x[i] = args.seed * (i + tid_x() % 32);
  roof.start();
#pragma unroll 1
  do {
#pragma unroll
    for (int i = 0; i < ROOF_OPERATIONS; ++i) x[i % 16] += i / 16 % 2 ? args.seed : -args.seed;
    bool is_huge = false;  // never; it makes the question depend on every sum, or ptxas asks halfway
#pragma unroll
    for (int i = 0; i < 16; ++i) is_huge |= x[i] > 1e30f;
    roof.begin_vector(is_huge);
  } while (roof.goes_on());
  roof.finish(roof.step, sum(x));
}

}  // namespace

EXPORT int shared_memory_bytes() { return RoofMemory::bytes; }
EXPORT int launch(const RoofArgs* args, void* stream) { return launch_roof<waiting_additions>(args, stream); }
