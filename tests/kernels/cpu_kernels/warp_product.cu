// c (16 x 16, fp32) = a * b + c by wmma; its rows go on through stmatrix and ldmatrix, which must be inverse, and
// votes, an election and atomics are counted: counters (4).
#include <arguments.cuh>
#include <ptx/atom.cuh>
#include <ptx/barrier.cuh>
#include <ptx/ld_st.cuh>
#include <ptx/ldmatrix.cuh>
#include <ptx/math.cuh>
#include <ptx/stmatrix.cuh>
#include <ptx/vote.cuh>
#include <ptx/wmma.cuh>

namespace {

constexpr int N = 16;

KERNEL(32, 1) warp_product(const Arguments arguments) {
  const uint32_t a_smem = shared_base(), b_smem = a_smem + N * N * 2, c_smem = b_smem + N * N * 2;
  const auto* a = static_cast<const ELEMENT_TYPE*>(arguments.tensors[0]);
  const auto* b = static_cast<const ELEMENT_TYPE*>(arguments.tensors[1]);
  auto* c = static_cast<float*>(arguments.tensors[2]);
  auto* counters = static_cast<uint32_t*>(arguments.tensors[3]);
  st_shared(a_smem + tid_x() * 16, ld_global<uint4>(a + tid_x() * 8));
  st_shared(b_smem + tid_x() * 16, ld_global<uint4>(b + tid_x() * 8));
  bar_warp_sync();

  // The four 8x8 matrices of A go out transposed and come back transposed.
  uint32_t regs[4], back[4];
  ldmatrix_x4(regs, a_smem + tid_x() % 16 * N * 2 + tid_x() / 16 * 16);
  stmatrix_x4_trans(c_smem + tid_x() * 16, regs);
  bar_warp_sync();
  ldmatrix_x4_trans(back, c_smem + tid_x() * 16);
  bool same = true;
  for (int i = 0; i < 4; ++i) same = same && regs[i] == back[i];
  if (vote_all(same) && !vote_any(!same) && vote_ballot(same) == 0xffffffffu && elect_sync()) atom_add(counters, 5);
  if (BUG != MISSING_BARRIER) bar_warp_sync();

  WmmaOperand<ELEMENT_TYPE> a_regs, b_regs;
  WmmaAccumulator c_regs;
  for (float& value : c_regs.r) value = 1.f;
  wmma_load_a_row(a_regs, a_smem, BUG == WRONG_STRIDE ? N + 4 : N);
  if (arguments.values[0]) {
    wmma_load_b_col(b_regs, b_smem, N);
    wmma_mma_row_col(c_regs, a_regs, b_regs);
  } else {
    wmma_load_b_row(b_regs, b_smem, N);
    wmma_mma_row_row(c_regs, a_regs, b_regs);
  }
  wmma_store_d_row(c_smem, c_regs, N);
  bar_warp_sync();
  wmma_load_c_row(c_regs, c_smem, N);
  bar_warp_sync();
  wmma_store_d_row(c_smem, c_regs, N);
  bar_warp_sync();
  for (int i = 0; i < N * N / 32; ++i)
    st_global(c + i * 32 + tid_x(), ld_shared<float>(c_smem + (i * 32 + tid_x()) * 4));
  atom_inc(counters + 1, 3);  // 32 times modulo 4
  if (tid_x() == 0) atom_exch(counters + 2, 7);
}

}  // namespace

EXPORT int shared_memory_bytes() { return N * N * 8; }

EXPORT int launch(const Arguments* arguments, void* stream) {
  return launch_kernel<warp_product>({1, 1, 1}, 32, shared_memory_bytes(), stream, *arguments);
}
