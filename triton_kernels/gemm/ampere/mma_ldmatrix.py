"""Tensor cores: tl.dot of 16-bit tiles, which becomes mma.sync fed by ldmatrix.

Builds on vectorized_loads; changes the dtype of the operands, and with it the instruction. Core Triton has no name for
either instruction: tl.dot of 16-bit tiles is mma.sync unless it is wgmma, and its operands come by ldmatrix from shared
memory that the compiler swizzles.
"""

import triton
import triton.language as tl

from triton_kernels.gemm.epilogue import store
from triton_kernels.gemm.specialization import Twin


@triton.jit
def mma_ldmatrix(
    a_ptr, b_ptr, bias_ptr, c_ptr, a_stride, b_stride, c_stride, m, n, k,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, EPILOGUE: tl.constexpr,
):  # fmt: skip
    tiles_n = tl.cdiv(n, BLOCK_N)
    row = tl.program_id(0) // tiles_n * BLOCK_M
    col = tl.program_id(0) % tiles_n * BLOCK_N
    ks = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + (row + tl.arange(0, BLOCK_M)).to(tl.int64)[:, None] * a_stride + ks[None, :]
    b_ptrs = b_ptr + (col + tl.arange(0, BLOCK_N)).to(tl.int64)[:, None] * b_stride + ks[None, :]
    sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k_start in range(0, k, BLOCK_K):
        a = tl.load(a_ptrs + k_start)
        b = tl.load(b_ptrs + k_start)
        sums = tl.dot(a, b.T, sums)
    store(sums, c_ptr, c_stride, bias_ptr, row, col, m, n, BLOCK_M, BLOCK_N, True, EPILOGUE)


twin = Twin(mma_ldmatrix)
