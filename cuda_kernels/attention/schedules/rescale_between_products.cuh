// O is rescaled once the next Q K^T has been issued and before P V is: Q K^T is in flight while O is multiplied.
#pragma once

#include <attention/rescale.cuh>

template <class Rescale>
DEVICE void between_products(float (&o_regs)[HEAD_DIM / 2], const float (&rescale)[2]) {
  Rescale::multiply(o_regs, rescale);
}
template <class Rescale>
DEVICE void behind_products(float (&)[HEAD_DIM / 2], const float (&)[2]) {}
