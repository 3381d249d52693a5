// Three warpgroups: registers move from the first to the others, which take turns by named barriers; each turn appends
// its number to a log in shared memory. out (2 * turns) = 1, 2, 1, 2, ...
#include <arguments.cuh>
#include <ptx/barrier.cuh>
#include <ptx/ld_st.cuh>
#include <ptx/setmaxnreg.cuh>

namespace {

constexpr int GROUP = 128, THREADS = 3 * GROUP, TURNS = 8;

struct Params {
  int* out;
};

KERNEL(THREADS, BLOCKS) warpgroup_roles(const Params params) {
  const int role = tid_x() / GROUP;
  if (role == 0) {
    if (BUG == TOO_MANY_REGISTERS)
      setmaxnreg_dec<40>();
    else
      setmaxnreg_dec<24>();
    return;
  }
  setmaxnreg_inc<240>();
  const uint32_t log = shared_base(), end = log + 2 * TURNS * 4;
  if (role == 1 && tid_x() % GROUP == 0) st_shared(end, 0);
  if (role == 2) bar_arrive(1, 2 * GROUP);  // the first turn is role 1's
  const int turns = BUG == MISSING_ARRIVAL && role == 2 ? TURNS - 1 : TURNS;
  for (int i = 0; i < turns; ++i) {
    if (BUG != MISSING_BARRIER) bar_sync(role, 2 * GROUP);
    if (tid_x() % GROUP == 0) {
      const int position = ld_shared<int>(end);
      st_shared(log + position * 4, role);
      st_shared(end, position + 1);
    }
    if (BUG != MISSING_BARRIER && (role == 1 || i + 1 < turns)) bar_arrive(3 - role, 2 * GROUP);
  }
  if (BUG == ONE_WARP_ALONE && tid_x() % GROUP < 32) setmaxnreg_dec<232>();
  if (BUG != MISSING_BARRIER) bar_sync(3, 2 * GROUP);
  if (tid_x() - GROUP < 2 * TURNS) st_global(params.out + tid_x() - GROUP, ld_shared<int>(log + (tid_x() - GROUP) * 4));
}

}  // namespace

EXPORT int shared_memory_bytes() { return (2 * TURNS + 1) * 4; }

EXPORT int launch(const Arguments* arguments, void* stream) {
  const Params params{static_cast<int*>(arguments->tensors[0])};
  return launch_kernel<warpgroup_roles>({1, 1, 1}, THREADS, shared_memory_bytes(), stream, params);
}
