// How fast does Hopper execute the matrix instruction of earlier architectures? mma.sync on fragments in registers,
// with eight independent sums per warp in flight.
#include <ptx/mma.cuh>
#include <attention/roofs.cuh>

namespace {

static_assert(PRODUCT_GROUPS > 0 && VECTOR_GROUPS == 0);

KERNEL(THREADS, 1) mma_sync(const RoofArgs args) {
  Roof roof(args);
  constexpr int SUMS = 8;
  uint32_t a[4], b[SUMS][2];
  float c[SUMS][4] = {};
#pragma unroll
  for (int i = 0; i < 4; ++i) a[i] = operand_bits(i * THREADS + tid_x());
#pragma unroll
  for (int i = 0; i < 2 * SUMS; ++i) b[i / 2][i % 2] = operand_bits((i + 4) * THREADS + tid_x());
  roof.start();
#pragma unroll 1
  while (roof.takes_product()) {
#pragma unroll
    for (int i = 0; i < ROOF_OPERATIONS; ++i) mma_m16n8k16<__nv_bfloat16>(c[i % SUMS], a, b[i % SUMS]);
  }
  float total = 0;
#pragma unroll
  for (int i = 0; i < SUMS; ++i) total += sum(c[i]);
  roof.finish(args.steps, total);
}

}  // namespace

EXPORT int shared_memory_bytes() { return RoofMemory::bytes; }
EXPORT int launch(const RoofArgs* args, void* stream) { return launch_roof<mma_sync>(args, stream); }
