// seen (8 x COLUMNS) = the box of `in` that begins at column x, row y, with zeros outside; the same box goes on to
// `out` where a store may begin there: at no negative coordinate.
#include <arguments.cuh>
#include <ptx/barrier.cuh>
#include <ptx/fence.cuh>
#include <ptx/ld_st.cuh>
#include <ptx/mbarrier.cuh>
#include <ptx/tma.cuh>

namespace {

constexpr int ROWS = 8;
constexpr uint32_t BYTES = ROWS * COLUMNS * 4;

struct Params {
  TensorMap in, out;
  float* seen;
  int x, y;
};

KERNEL(32, 1) tma_boxes(const GRID_CONSTANT Params params) {
  const uint32_t box = shared_base(), full = box + BYTES;
  if (tid_x() == 0) {
    prefetch_tensormap(params.in);
    mbarrier_init(full, 1);
    fence_mbarrier_init();
    mbarrier_arrive_expect_tx(full, BYTES);
    cp_async_bulk_tensor_load(box, params.in, {params.x, params.y}, full);
  }
  bar_warp_sync();
  while (!mbarrier_try_wait_parity(full, 0)) {
  }
  for (int i = tid_x(); i < ROWS * COLUMNS; i += 32) {
    const uint32_t plain = box + i * 4;
    const uint32_t address = plain ^ (plain >> 7 & ((1 << static_cast<int>(SWIZZLE)) - 1)) << 4;
    st_global(params.seen + i, ld_shared<float>(address));
  }
  const bool may_store = params.x >= 0 && params.y >= 0;
  if (tid_x() == 0 && (may_store || BUG == NEGATIVE_STORE)) {
    cp_async_bulk_tensor_store(params.out, {params.x, params.y}, box);
    cp_async_bulk_commit_group();
    cp_async_bulk_wait_group<0>();
  }
}

}  // namespace

EXPORT int shared_memory_bytes() { return BYTES + 8; }

EXPORT int launch(const Arguments* arguments, void* stream) {
  const auto& [tensors, values] = *arguments;
  const uint64_t columns = values[2], rows = values[3];
  Params params;
  params.seen = static_cast<float*>(tensors[2]), params.x = values[0], params.y = values[1];
  const auto encode = [&](TensorMap& map, void* base) {
    return tensor_map_encode_tiled<float, 2>(map, base, {columns, rows}, {columns * 4}, {COLUMNS, ROWS}, SWIZZLE);
  };
  if (const Error error = encode(params.in, tensors[0])) return error;
  if (const Error error = encode(params.out, tensors[1])) return error;
  return launch_kernel<tma_boxes>({1, 1, 1}, 32, shared_memory_bytes(), stream, params);
}
