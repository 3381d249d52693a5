// O is rescaled when both products have finished.
#pragma once

#include <attention/rescale.cuh>

template <class Rescale>
DEVICE void between_products(float (&)[HEAD_DIM / 2], const float (&)[2]) {}
template <class Rescale>
DEVICE void behind_products(float (&o_regs)[HEAD_DIM / 2], const float (&rescale)[2]) {
  Rescale::multiply(o_regs, rescale);
}
