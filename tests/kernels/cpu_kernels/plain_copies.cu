// Each of two blocks fetches a row of `in` (2 x 128) by a plain bulk copy, sends it through registers twice, by all
// forms of stmatrix, and stores both copies: out (2 x 2 x 128). said (2 x 2): the first element read back, and how many
// blocks the cluster has.
#include <arguments.cuh>
#include <ptx/barrier.cuh>
#include <ptx/cluster.cuh>
#include <ptx/cp_async.cuh>
#include <ptx/fence.cuh>
#include <ptx/ld_st.cuh>
#include <ptx/ldmatrix.cuh>
#include <ptx/mbarrier.cuh>
#include <ptx/stmatrix.cuh>
#include <ptx/tma.cuh>

namespace {

constexpr int COLUMNS = 128, BYTES = COLUMNS * 4;  // four matrices of 8 x 8 16-bit elements

KERNEL(32, 1) plain_copies(const Arguments arguments) {
  const uint32_t row = shared_base(), copies = row + BYTES, prefetched = copies + 2 * BYTES, full = prefetched + BYTES;
  const int rank = cluster_ctarank(), lane = tid_x();
  const auto* in = static_cast<const float*>(arguments.tensors[0]) + rank * COLUMNS;
  auto* out = static_cast<float*>(arguments.tensors[1]) + rank * 2 * COLUMNS;
  auto* said = static_cast<float*>(arguments.tensors[2]) + rank * 2;
  cp_async_cg_16(prefetched + lane * 16, in + lane * 4);
  cp_async_commit_group();
  if (lane == 0) {
    mbarrier_init(full, 1);
    fence_proxy_async();
    mbarrier_expect_tx(full, BYTES);
    cp_async_bulk_load(row, in, BUG == TOO_FEW_BYTES ? 0 : BYTES, full);
    mbarrier_arrive(full);
  }
  bar_warp_sync();
  while (!mbarrier_try_wait_parity(full, 0)) {
  }
  uint32_t four[4], two[2];
  ldmatrix_x4(four, row + lane * 16);
  stmatrix_x4(copies + lane * 16, four);
  ldmatrix_x2(two, row + lane % 16 * 16);
  stmatrix_x2(copies + BYTES + lane % 16 * 16, two);
  ldmatrix_x2_trans(two, row + BYTES / 2 + lane % 16 * 16);
  stmatrix_x2_trans(copies + BYTES + BYTES / 2 + lane % 16 * 16, two);
  fence_proxy_async();
  bar_warp_sync();
  if (lane == 0) {
    mbarrier_inval(full);
    cp_async_bulk_store(out, copies, 2 * BYTES);
    cp_async_bulk_commit_group();
    if (BUG == EARLY_READ)
      cp_async_bulk_wait_group_read<0>();  // shared memory is free, global memory not yet written
    else
      cp_async_bulk_wait_group<0>();
    st_global(said, ld_global<float>(out));
    st_global(said + 1, static_cast<float>(cluster_nctarank()));
  }
  cp_async_wait_group<0>();
}

}  // namespace

EXPORT int shared_memory_bytes() { return 4 * BYTES + 8; }

EXPORT int launch(const Arguments* arguments, void* stream) {
  return launch_kernel_cluster<plain_copies>({2, 1, 1}, {2, 1, 1}, 32, shared_memory_bytes(), stream, *arguments);
}
