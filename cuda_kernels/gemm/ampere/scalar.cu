// One thread for each element of C, one multiply-add at a time, everything from global memory.
// The first rung of the ladder; it builds on nothing. Supports any m, n and k.
//
// A thread walks along a row of A and a row of B, two bytes at a time. Threads of a warp have neighbouring columns of
// C: they read the same element of A and, of B, elements that are a whole row apart, so that a warp's load touches as
// many sectors as it has columns.
#include <gemm/gemm.cuh>

namespace {

constexpr int THREADS = WARPS * WARP_SIZE;
static_assert(BLOCK_M * BLOCK_N == THREADS, "a thread has one element of C");

KERNEL(THREADS, 1) scalar(const GemmArgs args) {
  const int tiles_n = ceil_div(args.n, BLOCK_N);
  const int row = ctaid_x() / tiles_n * BLOCK_M + tid_x() / BLOCK_N;
  const int col = ctaid_x() % tiles_n * BLOCK_N + tid_x() % BLOCK_N;
  if (row >= args.m || col >= args.n) return;
  const Element *a = a_at(args, row, 0), *b = b_at(args, col, 0);
  float sum = 0.f;
  for (int k = 0; k < args.k; ++k) sum += cvt_f32(ld_global<Element>(a + k)) * cvt_f32(ld_global<Element>(b + k));
  store(args, row, col, sum);
}

}  // namespace

EXPORT int shared_memory_bytes() { return 0; }

EXPORT int launch(const GemmArgs* args, void* stream) {
  const Grid grid{ceil_div(args->m, BLOCK_M) * ceil_div(args->n, BLOCK_N), 1, 1};
  return launch_kernel<scalar>(grid, THREADS, 0, stream, *args);
}
