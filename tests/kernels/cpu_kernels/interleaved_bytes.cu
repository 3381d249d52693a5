// Two warps write bytes by turns, and each reads the other's: out (64) = 32 ... 63, 0 ... 31.
#include <arguments.cuh>
#include <ptx/barrier.cuh>
#include <ptx/ld_st.cuh>

namespace {

constexpr int THREADS = 64;

KERNEL(THREADS, 1) interleaved_bytes(const Arguments arguments) {
  const int warp = tid_x() / 32, lane = tid_x() % 32;
  const uint32_t own = shared_base() + 2 * lane + warp, other = shared_base() + 2 * lane + 1 - warp;
  st_shared<uint8_t>(BUG == WRONG_STRIDE ? shared_base() + lane : own, tid_x());
  if (BUG != MISSING_BARRIER) bar_sync();
  st_global(static_cast<uint8_t*>(arguments.tensors[0]) + tid_x(), ld_shared<uint8_t>(other));
  if (BUG != EARLY_REUSE) bar_sync();
  st_shared<uint8_t>(own, 0);
}

}  // namespace

EXPORT int shared_memory_bytes() { return THREADS; }

EXPORT int launch(const Arguments* arguments, void* stream) {
  const int threads = BUG == TOO_MANY_THREADS ? THREADS + 32 : THREADS;
  return launch_kernel<interleaved_bytes>({1, BUG == TOO_TALL_A_GRID ? 65536 : 1, 1}, threads, shared_memory_bytes(),
                                          stream, *arguments);
}
