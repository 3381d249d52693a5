// How many clock cycles does the softmax of a unit take, alone and while the tensor cores are busy? A unit is 64 query
// rows by 128 keys, one step of a warpgroup: maxima, exponentials, sums, conversion to bf16, and the rescale of O.
#include <attention/roofs.cuh>

namespace {

constexpr int HEAD_DIM = ROOF_HEAD_DIM;

KERNEL(THREADS, 1) softmax(const RoofArgs args) {
  Roof roof(args);
  if (roof.multiplies()) return saturate<ROOF_COLUMNS>(roof);
  float s_regs[KEYS / 2], o_regs[HEAD_DIM / 2], rescale[2];
  uint32_t p_regs[KEYS / MMA_K][4];
#pragma unroll
  for (int i = 0; i < KEYS / 2; ++i) s_regs[i] = args.seed * ((i * 7 + tid_x()) % 32);
#pragma unroll
  for (int d = 0; d < HEAD_DIM / 2; ++d) o_regs[d] = args.seed * d;
  Softmax rows;
  roof.start();
#pragma unroll 1
  do {
    roof.begin_vector();
    register_fence(s_regs);
    rows.step(s_regs, rescale, args.seed);
    convert(p_regs, s_regs);
    // P becomes half of the next step's scores: the compiler would drop a conversion that nobody reads.
#pragma unroll
    for (int i = 0; i < KEYS / 4; ++i) s_regs[i * 2] = float_of(p_regs[i / 4][i % 4]);
#pragma unroll
    for (int d = 0; d < HEAD_DIM / 2; ++d) o_regs[d] *= rescale[d / 2 % 2];
  } while (roof.goes_on());
  roof.finish(roof.step, sum(o_regs) + sum(rows.row_sum));
}

}  // namespace

EXPORT int shared_memory_bytes() { return RoofMemory::bytes; }
EXPORT int launch(const RoofArgs* args, void* stream) { return launch_roof<softmax>(args, stream); }
