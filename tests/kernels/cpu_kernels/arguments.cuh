// What tests/kernels/test_cpu_instructions.py gives to every kernel of this folder, and the bug that it plants into it.
#pragma once

#include <cstdint>

#define EXPORT extern "C" __attribute__((visibility("default")))

struct Arguments {
  void* tensors[4];
  int32_t values[4];
};

enum Bug {
  NONE,
  MISSING_WAIT,
  MISSING_FENCE,
  MISSING_READ_FENCE,
  MISSING_COMMIT,
  MISSING_BARRIER,
  MISSING_ARRIVAL,
  MISSING_INIT_FENCE,
  WRONG_PHASE,
  WRONG_STRIDE,
  EXCHANGED_STRIDES,
  TOO_FEW_BYTES,
  TOO_MANY_BYTES,
  EARLY_RELEASE,
  OVER_ARRIVAL,
  EARLY_READ,
  EARLY_WRITE,
  LATE_WRITE,
  LATE_FRAGMENT,
  EARLY_FRAGMENT,
  EARLY_REUSE,
  EARLY_OVERWRITE,
  ORDERED_OVERWRITE,
  EARLY_RETURN,
  TOO_MANY_REGISTERS,
  WRONG_COUNT,
  EARLY_SCALE,
  EARLY_MAX,
  EARLY_SHUFFLE,
  EARLY_STORE,
  EARLY_STAGING,
  OTHER_DESCRIPTOR,
  OTHER_SCALE,
  UNORDERED_LANES,
  HIDDEN_READ,
  ONE_WARP_ALONE,
  MULTICAST_BEYOND,
  MULTICAST_TO_NOBODY,
  PLAIN_STORE,
  PLAIN_ARRIVAL,
  REMOTE_WAIT,
  NOTHING_SET,
  ONE_LANE_WAITS,
  NEGATIVE_STORE,
  MISALIGNED_TILE,
  TOO_MANY_THREADS,
  TOO_TALL_A_GRID,
  // No bugs:
  FENCED_WRITE,
  COUNTED_BARRIER,
  MADE_UP_POLICY,
};
#ifdef __CUDACC__
constexpr Bug BUG = NONE;
#else
inline Bug BUG = NONE;  // one build has them all
EXPORT void plant(int bug) { BUG = static_cast<Bug>(bug); }
#endif
