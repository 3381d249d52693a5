// Matrix instructions of a warp.
#pragma once

#include <runtime/execution.h>

namespace cpu {

enum class Format { fp16, bf16, e4m3 };

// `matrices` 8x8 matrices of 16-bit elements; lane i's `address` is row i % 8 of matrix i / 8. Fills r[matrices].
void ldmatrix(uint32_t* r, int matrices, bool transposed, uint32_t address, const char* mnemonic, Where where);

// c (16x8) += a (16x16) * b (16x8), fragments as in ptx/mma.cuh.
void mma_m16n8k16(float* c, const uint32_t* a, const uint32_t* b, Format format, const char* mnemonic, Where where);

}  // namespace cpu
