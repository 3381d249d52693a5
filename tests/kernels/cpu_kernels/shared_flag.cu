// A warp waits for a flag in shared memory that another warp sets, by plain loads: on a GPU the compiler loads it once.
// values: whether the whole warp asks, by votes, and not one lane alone.
#include <arguments.cuh>
#include <ptx/barrier.cuh>
#include <ptx/ld_st.cuh>
#include <ptx/vote.cuh>

namespace {

constexpr int THREADS = 64;

KERNEL(THREADS, 1) shared_flag(const Arguments arguments) {
  const uint32_t flags = shared_base();
  if (tid_x() < 2) st_shared(flags + tid_x() * 4, 0);
  bar_sync();
  const auto are_set = [&] { return ld_shared<int>(flags) && ld_shared<int>(flags + 4); };
  if (arguments.values[0] && tid_x() < 32)
    while (!vote_any(are_set())) {
    }
  else if (tid_x() == 0)
    while (!are_set()) {
    }
  else if (tid_x() == 32 && BUG != NOTHING_SET)
    st_shared(flags, make_int2(1, 1));
}

}  // namespace

EXPORT int shared_memory_bytes() { return 8; }

EXPORT int launch(const Arguments* arguments, void* stream) {
  return launch_kernel<shared_flag>({1, 1, 1}, THREADS, shared_memory_bytes(), stream, *arguments);
}
