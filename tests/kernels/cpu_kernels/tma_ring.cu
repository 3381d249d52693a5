// out (tiles x 64 x 64) = 2 * in: a producer warp fills a ring of two stages by TMA, four consumer warps empty it
// through registers into a staging buffer, which TMA stores. Both tensors are bounded at `rows`.
#include <arguments.cuh>
#include <ptx/barrier.cuh>
#include <ptx/createpolicy.cuh>
#include <ptx/fence.cuh>
#include <ptx/ld_st.cuh>
#include <ptx/mbarrier.cuh>
#include <ptx/shfl.cuh>
#include <ptx/tma.cuh>
#include <ptx/vote.cuh>

namespace {

constexpr int ROWS = 64, COLUMNS = 32, STAGES = 2, CONSUMERS = 128, THREADS = CONSUMERS + 32;
constexpr uint32_t TILE = ROWS * COLUMNS * 4;

struct Params {
  TensorMap in, out;
  int tiles;
};

KERNEL(THREADS, 1) tma_ring(const GRID_CONSTANT Params params) {
  const uint32_t stages = shared_base(), staging = stages + STAGES * TILE;
  const uint32_t full = staging + TILE, empty = full + STAGES * 8;
  const int warp = tid_x() / 32;
  if (tid_x() == 0) {
    for (int i = 0; i < STAGES; ++i) mbarrier_init(full + i * 8, 1), mbarrier_init(empty + i * 8, CONSUMERS / 32);
    if (BUG != MISSING_INIT_FENCE) fence_mbarrier_init();
  }
  if (BUG == COUNTED_BARRIER && warp == 2)
    bar_sync(0, THREADS);
  else if (BUG != MISSING_BARRIER)
    bar_sync();

  if (warp == CONSUMERS / 32) {  // producer
    if (!elect_sync()) return;
    const uint64_t hints[] = {createpolicy_evict_first(), BUG == MADE_UP_POLICY ? 1 : createpolicy_evict_last()};
    for (int i = 0; i < params.tiles; ++i) {
      const int stage = i % STAGES, phase = i / STAGES % 2;
      while (!mbarrier_try_wait_parity(empty + stage * 8, BUG == WRONG_PHASE ? phase : phase ^ 1)) {
      }
      const uint32_t expected = BUG == TOO_FEW_BYTES ? TILE / 2 : BUG == TOO_MANY_BYTES ? TILE + 16 : TILE;
      mbarrier_arrive_expect_tx(full + stage * 8, expected);
      if (BUG == OVER_ARRIVAL) mbarrier_arrive(full + stage * 8);
      for (int half = 0; half < 2; ++half)
        cp_async_bulk_tensor_load_cache_hint(stages + stage * TILE + half * TILE / 2, params.in,
                                             {0, i * ROWS + half * ROWS / 2}, full + stage * 8, hints[half]);
    }
    return;
  }
  for (int i = 0; i < params.tiles; ++i) {
    const int stage = i % STAGES, phase = i / STAGES % 2;
    if (BUG != MISSING_WAIT && (BUG != ONE_LANE_WAITS || tid_x() % 32 == 0))
      while (!mbarrier_test_wait_parity(full + stage * 8, phase)) {
      }
    if (BUG == ONE_LANE_WAITS) shfl_idx(0, 0);  // the others come later, but a shuffle orders no memory
    const auto release = [&] {
      // Without the fence TMA, another proxy, may overwrite what is still being read.
      if (BUG != MISSING_READ_FENCE) fence_proxy_async_shared();
      if (BUG == LATE_WRITE) st_shared(stages + stage * TILE + tid_x() * 16, make_float4(0, 0, 0, 0));
      bar_warp_sync();  // all lanes have read
      if (BUG != MISSING_ARRIVAL && tid_x() % 32 == 0) mbarrier_arrive(empty + stage * 8);
    };
    if (BUG == EARLY_RELEASE) release();
    float4 values[ROWS * COLUMNS / 4 / CONSUMERS];
    for (int j = 0; j < ROWS * COLUMNS / 4 / CONSUMERS; ++j)
      values[j] = ld_shared<float4>(stages + stage * TILE + (j * CONSUMERS + tid_x()) * 16);
    if (BUG != EARLY_RELEASE) release();

    if (tid_x() == 0 && BUG != EARLY_REUSE) cp_async_bulk_wait_group_read<0>();
    bar_sync(1, BUG == WRONG_COUNT && warp == 0 ? CONSUMERS + 32 : CONSUMERS);  // the staging buffer is free
    for (int j = 0; j < ROWS * COLUMNS / 4 / CONSUMERS; ++j) {
      const float4 v = values[j];
      st_shared(staging + (j * CONSUMERS + tid_x()) * 16, make_float4(2 * v.x, 2 * v.y, 2 * v.z, 2 * v.w));
    }
    if (BUG != MISSING_FENCE) fence_proxy_async_shared();
    bar_sync(1, CONSUMERS);
    if (tid_x() == 0) {
      for (int half = 0; half < 2; ++half)
        cp_async_bulk_tensor_store(params.out, {0, i * ROWS + half * ROWS / 2}, staging + half * TILE / 2);
      if (BUG != MISSING_COMMIT) cp_async_bulk_commit_group();
    }
  }
  if (tid_x() == 0 && BUG != EARLY_RETURN) cp_async_bulk_wait_group<0>();
}

}  // namespace

EXPORT int shared_memory_bytes() { return (STAGES + 1) * TILE + 4 * STAGES * 8; }

EXPORT int launch(const Arguments* arguments, void* stream) {
  const uint64_t rows = arguments->values[0];
  Params params;
  params.tiles = (arguments->values[0] + ROWS - 1) / ROWS;
  const auto encode = [&](TensorMap& map, void* base) {
    return tensor_map_encode_tiled<float, 2>(map, base, {COLUMNS, rows}, {COLUMNS * 4}, {COLUMNS, ROWS / 2},
                                             Swizzle::none);
  };
  if (const Error error = encode(params.in, arguments->tensors[0])) return error;
  if (const Error error = encode(params.out, arguments->tensors[1])) return error;
  return launch_kernel<tma_ring>({1, 1, 1}, THREADS, shared_memory_bytes(), stream, params);
}
