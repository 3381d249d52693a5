// PTX ISA, special registers: %smid.
#pragma once

#include <ptx/kernel.cuh>

// The multiprocessor that this thread runs on. A thread may migrate to another; no GPU is known to do so unasked.
DEVICE int smid() {
  int number;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(number));
  return number;
}
