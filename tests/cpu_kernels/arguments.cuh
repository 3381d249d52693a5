// What tests/test_cpu_instructions.py gives to every kernel of this folder, and the bug that a build plants into it.
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
  TOO_FEW_BYTES,
  TOO_MANY_BYTES,
  EARLY_RELEASE,
  OVER_ARRIVAL,
  EARLY_READ,
  EARLY_WRITE,
  LATE_WRITE,
  EARLY_REUSE,
  EARLY_RETURN,
  TOO_MANY_REGISTERS,
  WRONG_COUNT,
};
constexpr Bug BUG = PLANTED;
