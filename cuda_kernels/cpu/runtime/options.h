// What `configure` sets: how the kernels of this library run.
#pragma once

#include <cstdint>

namespace cpu {

struct Options {
  uint64_t seed = 0;       // order of warps; 0: the plain order
  bool checks = true;      // races, reads before writes, accesses outside tensors
  bool counters = false;   // bank conflicts, transactions, bytes, instructions
  int os_threads = 0;      // 0: as many as the machine has
  int patience_ms = 2000;  // of processor time, for a block that reaches nothing new; see endless.h
};

inline Options the_options;
inline Options& options() { return the_options; }

}  // namespace cpu
