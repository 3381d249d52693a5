// When O is multiplied because a row's maximum has grown: in every step, or only where that is needed.
#pragma once

#include <attention/attention.cuh>
#include <ptx/vote.cuh>

struct EachStep {
  static constexpr float SLACK = 0.f;  // in log2 units: how far a row's maximum may outgrow the one in use
  DEVICE static void multiply(float (&o_regs)[HEAD_DIM / 2], const float (&rescale)[2]) {
#pragma unroll
    for (int d = 0; d < HEAD_DIM / 2; ++d) o_regs[d] *= rescale[d / 2 % 2];
  }
};

// Rescaling O can cost tensor-core time: a larger head_dim has a larger O and, with smaller key tiles, more rescales.
struct WhenOutgrown {
  static constexpr float SLACK = 2.f;
  DEVICE static void multiply(float (&o_regs)[HEAD_DIM / 2], const float (&rescale)[2]) {
    if (!vote_any(rescale[0] != 1.f || rescale[1] != 1.f)) return;
    EachStep::multiply(o_regs, rescale);
  }
};
