"""Blocks share what they read: tl.dot in fp32, whose operands pass through shared memory.

Builds on scalar; changes the outer product to tl.dot of tiles with BLOCK_K columns. `input_precision="ieee"` keeps it
off the tensor cores: it is done by fp32 multiply-adds. Core Triton leaves it to the compiler how many elements of C a
thread has and how operands get to it; it converts tiles to fp32 in registers and stores them to shared memory.
"""

import triton
import triton.language as tl

from triton_kernels.gemm.epilogue import store
from triton_kernels.gemm.specialization import Twin


@triton.jit
def block_tiled(
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
        a = tl.load(a_ptrs + k_start).to(tl.float32)
        b = tl.load(b_ptrs + k_start).to(tl.float32)
        sums = tl.dot(a, b.T, sums, input_precision="ieee")
    store(sums, c_ptr, c_stride, bias_ptr, row, col, m, n, BLOCK_M, BLOCK_N, True, EPILOGUE)


twin = Twin(block_tiled)
