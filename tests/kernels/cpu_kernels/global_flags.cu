// A warp waits for a flag in global memory that another warp sets, and reads what that one wrote before: out (blocks) =
// 1 + the number of the block whose warp it was. values: blocks, how many blocks further on the flag is set, and
// whether it is asked for and set by plain accesses instead of atomics.
#include <arguments.cuh>
#include <ptx/atom.cuh>
#include <ptx/barrier.cuh>
#include <ptx/fence.cuh>
#include <ptx/ld_st.cuh>

namespace {

constexpr int THREADS = 64;

KERNEL(THREADS, 1) global_flags(const Arguments arguments) {
  auto* flags = static_cast<uint32_t*>(arguments.tensors[0]);
  auto* data = static_cast<float*>(arguments.tensors[1]);
  auto* out = static_cast<float*>(arguments.tensors[2]);
  const int block = ctaid_x(), other = (block + arguments.values[1]) % arguments.values[0];
  const bool is_plain = arguments.values[2];
  const auto is_set = [&]() -> bool {
    if (!is_plain) return atom_add(flags + block, 0);
    const bool is_written = ld_global<float>(data + block) != 0;  // asked whatever the flag is: a loop of two loads
    return ld_global<uint32_t>(flags + block) && is_written;
  };
  if (tid_x() == 0) {
    while (!is_set()) {
    }
    fence_acq_rel_gpu();
    st_global(out + block, ld_global<float>(data + block));
  } else if (tid_x() == 32) {
    st_global(data + other, 1.f + block);
    fence_acq_rel_gpu();
    if (BUG == NOTHING_SET) return;
    if (is_plain)
      st_global(flags + other, 1u);
    else
      atom_exch(flags + other, 1);
  }
}

}  // namespace

EXPORT int shared_memory_bytes() { return 16; }

EXPORT int launch(const Arguments* arguments, void* stream) {
  return launch_kernel<global_flags>({arguments->values[0], 1, 1}, THREADS, shared_memory_bytes(), stream, *arguments);
}
