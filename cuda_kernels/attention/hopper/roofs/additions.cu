// Do fp32 additions and the tensor cores slow each other down? Sixteen chains of FADD, on the FMA pipe.
#include <attention/roofs.cuh>

namespace {

KERNEL(THREADS, 1) additions(const RoofArgs args) {
  Roof roof(args);
  if (roof.multiplies()) return saturate<ROOF_COLUMNS>(roof);
  float x[16];
#pragma unroll
  for (int i = 0; i < 16; ++i) x[i] = args.seed * (i + tid_x() % 32);
  roof.start();
#pragma unroll 1
  do {
    roof.begin_vector();
#pragma unroll
    for (int i = 0; i < ROOF_OPERATIONS; ++i) x[i % 16] += i / 16 % 2 ? args.seed : -args.seed;
  } while (roof.goes_on());
  roof.finish(roof.step, sum(x));
}

}  // namespace

EXPORT int shared_memory_bytes() { return RoofMemory::bytes; }
EXPORT int launch(const RoofArgs* args, void* stream) { return launch_roof<additions>(args, stream); }
