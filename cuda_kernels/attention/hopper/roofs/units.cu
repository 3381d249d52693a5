// How fast do the tensor cores multiply in the shapes of attention? Units of 64 query rows by 128 keys: S += Q K^T,
// then O += P V, with nothing in between. Each warpgroup waits for its own unit while another warpgroup's is in flight.
#include <attention/roofs.cuh>

namespace {

constexpr int HEAD_DIM = ROOF_HEAD_DIM;
static_assert(PRODUCT_GROUPS > 0 && VECTOR_GROUPS == 0);

KERNEL(THREADS, 1) units(const RoofArgs args) {
  Roof roof(args);
  const uint64_t q = k_major(roof.smem + RoofMemory::q + roof.warpgroup * ROWS * 2 * ROW_BYTES);
  const uint64_t k = k_major(roof.smem + RoofMemory::k), v = mn_major(roof.smem + RoofMemory::v);
  float s_regs[KEYS / 2] = {}, o_regs[HEAD_DIM / 2] = {};
  uint32_t p_regs[KEYS / MMA_K][4];
#pragma unroll
  for (int n = 0; n < KEYS / MMA_K; ++n)
    for (int i = 0; i < 4; ++i) p_regs[n][i] = operand_bits(tid_x() * 32 + n * 4 + i);
  roof.start();
#pragma unroll 1
  while (roof.takes_product()) {
    register_fence(s_regs), register_fence(o_regs), register_fence(p_regs);
    wgmma_fence();
#pragma unroll
    for (int d = 0; d < HEAD_DIM; d += MMA_K)  // always accumulates: ptxas drops products that nobody reads
      wgmma_mma_async_ss<__nv_bfloat16, KEYS>(s_regs, q + k_major_columns<ROWS>(d), k + k_major_columns<KEYS>(d), 1);
#pragma unroll
    for (int n = 0; n < KEYS / MMA_K; ++n)
      wgmma_mma_async_rs<__nv_bfloat16, HEAD_DIM, true>(o_regs, p_regs[n], v + mn_major_rows(n * MMA_K), 1);
    wgmma_commit_group();
    wgmma_wait_group<0>();
  }
  register_fence(s_regs), register_fence(o_regs);
  roof.finish(args.steps, sum(s_regs) + sum(o_regs));
}

}  // namespace

EXPORT int shared_memory_bytes() { return RoofMemory::bytes; }
EXPORT int launch(const RoofArgs* args, void* stream) { return launch_roof<units>(args, stream); }
