// Softmax over rows, a thread for each: one pass finds the maximum and the sum, a second one writes.
#include <cstdint>

#include <ptx/kernel.cuh>
#include <ptx/ld_st.cuh>
#include <ptx/math.cuh>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

// Filled through ctypes by operator.py: same fields in the same order. x and y: (rows, columns).
struct SoftmaxArgs {
  const float* x;
  float* y;
  int32_t rows, columns;
};

constexpr int THREADS = SOFTMAX_THREADS;
constexpr float LOG2_OF_E = 1.4426950408889634f;

KERNEL(THREADS, 1) online(const SoftmaxArgs args) {
  const int row = ctaid_x() * THREADS + tid_x();
  if (row >= args.rows) return;
  const float* x = args.x + static_cast<int64_t>(row) * args.columns;
  float* y = args.y + static_cast<int64_t>(row) * args.columns;
  float row_max = -INFINITY_F32, row_sum = 0.f;
  for (int c = 0; c < args.columns; ++c) {
    const float value = ld_global<float>(x + c), new_max = max_f32(row_max, value);
    row_sum = row_sum * ex2_approx_ftz((row_max - new_max) * LOG2_OF_E) + ex2_approx_ftz((value - new_max) * LOG2_OF_E);
    row_max = new_max;
  }
  const float inverse = rcp_approx_ftz(row_sum);
  for (int c = 0; c < args.columns; ++c)
    st_global(y + c, ex2_approx_ftz((ld_global<float>(x + c) - row_max) * LOG2_OF_E) * inverse);
}

}  // namespace

EXPORT int shared_memory_bytes() { return 0; }

EXPORT int launch(const SoftmaxArgs* args, void* stream) {
  const Grid grid{(args->rows + THREADS - 1) / THREADS, 1, 1};
  return launch_kernel<online>(grid, THREADS, 0, stream, *args);
}
