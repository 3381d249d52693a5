// How fast is the main loop of attention if it never waits for data? Every warpgroup owns 64 query rows and takes 128
// keys per step; K and V are in shared memory from the start. The next Q K^T is issued with this P V, and the softmax
// runs while P V is in flight. Built with all exponentials, with none, and with some on the FMA pipe.
#include <attention/roofs.cuh>

namespace {

constexpr int HEAD_DIM = ROOF_HEAD_DIM;
static_assert(PRODUCT_GROUPS > 0 && VECTOR_GROUPS == 0);

KERNEL(THREADS, 1) loop(const RoofArgs args) {
  Roof roof(args);
  const uint64_t q = k_major(roof.smem + RoofMemory::q + roof.warpgroup * ROWS * 2 * ROW_BYTES);
  const uint64_t k = k_major(roof.smem + RoofMemory::k), v = mn_major(roof.smem + RoofMemory::v);
  const float scale_log2 = args.seed * 0.125f;
  float s_regs[KEYS / 2], o_regs[HEAD_DIM / 2] = {}, rescale[2];
  uint32_t p_regs[KEYS / MMA_K][4];
  Softmax rows;

  auto issue_qk = [&] {  // S = Q K^T
    register_fence(s_regs);
    wgmma_fence();
#pragma unroll
    for (int d = 0; d < HEAD_DIM; d += MMA_K)
      wgmma_mma_async_ss<__nv_bfloat16, KEYS>(s_regs, q + k_major_columns<ROWS>(d), k + k_major_columns<KEYS>(d),
                                              d != 0);
    wgmma_commit_group();
  };
  auto issue_pv = [&] {  // O += P V
    register_fence(o_regs), register_fence(p_regs);
    wgmma_fence();
#pragma unroll
    for (int n = 0; n < KEYS / MMA_K; ++n)
      wgmma_mma_async_rs<__nv_bfloat16, HEAD_DIM, true>(o_regs, p_regs[n], v + mn_major_rows(n * MMA_K), 1);
    wgmma_commit_group();
  };

  issue_qk();
  wgmma_wait_group<0>();
  register_fence(s_regs);
  rows.step(s_regs, rescale, scale_log2);
  convert(p_regs, s_regs);
  roof.start();
#pragma unroll 1
  while (roof.takes_product()) {
    issue_qk();
    issue_pv();
    wgmma_wait_group<1>();  // wait for S; P V may still be in flight
    register_fence(s_regs);
    rows.step(s_regs, rescale, scale_log2);
    wgmma_wait_group<0>();  // P V has finished: O is valid and P may be overwritten
    register_fence(o_regs), register_fence(p_regs);
    convert(p_regs, s_regs);
#pragma unroll
    for (int d = 0; d < HEAD_DIM / 2; ++d) o_regs[d] *= rescale[d / 2 % 2];
  }
  roof.finish(args.steps, sum(o_regs) + sum(rows.row_sum));
}

}  // namespace

EXPORT int shared_memory_bytes() { return RoofMemory::bytes; }
EXPORT int launch(const RoofArgs* args, void* stream) { return launch_roof<loop>(args, stream); }
