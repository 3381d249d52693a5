// Two blocks of a cluster share a tile by multicast, each loading half of it for both; then each writes the half of its
// neighbour, read through the cluster's shared memory: out (2 x 128) = in (2 x 128) with its rows exchanged, plus in.
#include <arguments.cuh>
#include <ptx/barrier.cuh>
#include <ptx/cluster.cuh>
#include <ptx/fence.cuh>
#include <ptx/ld_st.cuh>
#include <ptx/mbarrier.cuh>
#include <ptx/tma.cuh>

namespace {

constexpr int HALF = 128, THREADS = 128;

struct Params {
  TensorMap in;
  float* out;
};

KERNEL(THREADS, 1) cluster_exchange(const GRID_CONSTANT Params params) {
  const uint32_t tile = shared_base(), own = tile + 2 * HALF * 4, full = own + HALF * 4, done = full + 8;
  const int rank = cluster_ctarank(), other = rank ^ 1;
  if (tid_x() == 0) {
    mbarrier_init(full, 1);
    mbarrier_init(done, 1);
    fence_mbarrier_init();
  }
  if (BUG != MISSING_BARRIER) {
    barrier_cluster_arrive();
    barrier_cluster_wait();
  }
  if (tid_x() == 0) {
    mbarrier_arrive_expect_tx(full, 2 * HALF * 4);
    const int blocks = BUG == MULTICAST_BEYOND ? 7 : BUG == MULTICAST_TO_NOBODY ? 0 : 3;
    cp_async_bulk_tensor_load_multicast(tile + rank * HALF * 4, params.in, {0, rank}, full, blocks);
  }
  while (!mbarrier_try_wait_parity(full, 0)) {
  }
  const float mine = ld_shared<float>(tile + (rank * HALF + tid_x()) * 4);
  st_shared_cluster(mapa(own + tid_x() * 4, other), mine);
  if (BUG == PLAIN_STORE) st_shared(mapa(own + tid_x() * 4, other), mine);
  bar_sync();
  if (BUG == PLAIN_ARRIVAL) mbarrier_arrive(mapa(done, other));
  if (tid_x() == 0 && BUG != MISSING_ARRIVAL) mbarrier_arrive_cluster(mapa(done, other));
  if (BUG == REMOTE_WAIT) mbarrier_try_wait_parity_cluster(mapa(done, other), 0);
  while (!mbarrier_try_wait_parity_cluster(done, 0)) {
  }
  st_global(params.out + rank * HALF + tid_x(), ld_shared<float>(own + tid_x() * 4) + mine);
  if (BUG == EARLY_RETURN && rank == 0) return;
  if (BUG == EARLY_RETURN) {
    for (int i = 0; i < 50; ++i) bar_sync();
    ld_shared_cluster<float>(mapa(own, other));
    return;
  }
  barrier_cluster_arrive();
  barrier_cluster_wait();
}

}  // namespace

EXPORT int shared_memory_bytes() { return 3 * HALF * 4 + 16; }

EXPORT int launch(const Arguments* arguments, void* stream) {
  Params params;
  params.out = static_cast<float*>(arguments->tensors[1]);
  if (const Error error = tensor_map_encode_tiled<float, 2>(params.in, arguments->tensors[0], {HALF, 2}, {HALF * 4},
                                                            {HALF, 1}, Swizzle::none))
    return error;
  return launch_kernel_cluster<cluster_exchange>({2, 1, 1}, {2, 1, 1}, THREADS, shared_memory_bytes(), stream, params);
}
