// Matrix instructions of a warp.
#pragma once

#include <runtime/execution.h>

namespace cpu {

enum class Format { fp16, bf16, e4m3 };

// `matrices` 8x8 matrices of 16-bit elements; lane i's `address` is row i % 8 of matrix i / 8. Fills r[matrices].
void ldmatrix(uint32_t* r, int matrices, bool transposed, uint32_t address, const char* mnemonic, Where where);

// c (16x8) += a (16x16) * b (16x8), fragments as in ptx/mma.cuh.
void mma_m16n8k16(float* c, const uint32_t* a, const uint32_t* b, Format format, const char* mnemonic, Where where);

// The inverse of ldmatrix.
void stmatrix(const uint32_t* r, int matrices, bool transposed, uint32_t address, const char* mnemonic, Where where);

// 16x16 matrices of a warp, row-major or column-major in shared memory; lane i holds elements 8 * i to 8 * i + 7 of the
// row-major matrix, the layout that this runtime chose for wmma.
void wmma_load(uint16_t* elements, bool column_major, uint32_t address, int stride, const char* mnemonic, Where where);
void wmma_load_f32(float* elements, uint32_t address, int stride, const char* mnemonic, Where where);
void wmma_store_f32(const float* elements, uint32_t address, int stride, const char* mnemonic, Where where);
void wmma_multiply(float* c, const uint16_t* a, const uint16_t* b, Format format, const char* mnemonic, Where where);

// c[m][n] += a[m][k] * b[k][n], all row-major.
void multiply_add(float* c, const float* a, const float* b, int m, int n, int k);

}  // namespace cpu
