// Reads the clock of every multiprocessor, in cycles and in nanoseconds. Launched before and after a kernel on the same
// stream, it shows at what frequency that kernel ran, ours or a library's, without changing the kernel.
#include <cstdint>

#include <ptx/clock.cuh>
#include <ptx/device.cuh>
#include <ptx/kernel.cuh>
#include <ptx/ld_st.cuh>
#include <ptx/smid.cuh>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

struct Stand {
  uint64_t cycles, nanoseconds;
};

// Filled through ctypes by harness/build/sm_clocks.py: same fields in the same order.
struct Stands {
  Stand* of;  // (multiprocessors,)
};

// As many threads as a block can have, so that every multiprocessor gets one block before any gets a second.
constexpr int THREADS = 1024;

KERNEL(THREADS, 1) sm_clocks(const Stands stands) {
  if (tid_x()) return;
  const Stand stand = {sm_clock64(), globaltimer()};
  Stand* own = stands.of + smid();
  st_global(&own->cycles, stand.cycles), st_global(&own->nanoseconds, stand.nanoseconds);
}

}  // namespace

EXPORT int shared_memory_bytes() { return 0; }

EXPORT int launch(const Stands* stands, void* stream) {
  int multiprocessors;
  if (const Error error = multiprocessor_count(multiprocessors)) return error;
  return launch_kernel<sm_clocks>({multiprocessors, 1, 1}, THREADS, 0, stream, *stands);
}
