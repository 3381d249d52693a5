// A block of two warps whose second warp goes on for ever, in one of several ways; the first waits for it.
// tensors: 64 floats read, 64 floats written, a counter. values: the way.
#include <arguments.cuh>
#include <ptx/atom.cuh>
#include <ptx/barrier.cuh>
#include <ptx/ld_st.cuh>
#include <ptx/math.cuh>
#include <ptx/vote.cuh>

namespace {

constexpr int THREADS = 64;

enum Way { NONE_AT_ALL, VOTES, READS, WRITES, COUNTS, ARITHMETIC, BARRIERS };

KERNEL(THREADS, 1) endless_loop(const Arguments arguments) {
  const auto* in = static_cast<const float*>(arguments.tensors[0]);
  auto* out = static_cast<float*>(arguments.tensors[1]);
  auto* counter = static_cast<uint32_t*>(arguments.tensors[2]);
  const int way = arguments.values[0];
  float x = ld_global<float>(in + tid_x());
  if (tid_x() >= 32) {
    if (way == VOTES)
      while (vote_any(true)) x += 1.f;
    if (way == READS)
      for (int i = 0; i < 64; i = (i + 1) % 64) x += ld_global<float>(in + i);
    if (way == WRITES)
      for (;;) st_shared(shared_base() + (tid_x() - 32) * 4, x += 1.f);
    if (way == COUNTS)
      while (atom_add(counter, 1u) + 1u != 0u) x += 1.f;
    if (way == ARITHMETIC)
      while (x != 0.f) x = x > 1.f ? x - 1.f : x + 1.5f;
  }
  if (way == BARRIERS)
    for (;;) bar_sync();
  bar_sync();
  st_global(out + tid_x(), x);
}

}  // namespace

EXPORT int shared_memory_bytes() { return 256; }

EXPORT int launch(const Arguments* arguments, void* stream) {
  return launch_kernel<endless_loop>({1, 1, 1}, THREADS, shared_memory_bytes(), stream, *arguments);
}
