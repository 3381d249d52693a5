"""Every factor from global memory: for eight k at a time rows of A and of B, whose products are added to C.

The first rung of the ladder; it builds on nothing. General: any m, and any n and k that are multiples of 8.

Core Triton has no threads: a program has BLOCK_M x BLOCK_N elements of C, and the compiler decides who computes them.
Of eight k it gives one to each of eight lanes, which read it by 2-byte loads and add up by shuffles; then the sums pass
through shared memory to the thread that keeps them. The factors do not: the same elements are read again and again, as
in the CUDA twin.
"""

import triton
import triton.language as tl

from triton_kernels.gemm.epilogue import store
from triton_kernels.gemm.specialization import Twin

CHUNK = tl.constexpr(8)


@triton.jit
def scalar(
    a_ptr, b_ptr, bias_ptr, c_ptr, a_stride, b_stride, c_stride, m, n, k,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, EVEN: tl.constexpr, EPILOGUE: tl.constexpr,
):  # fmt: skip
    tiles_n = tl.cdiv(n, BLOCK_N)
    row = tl.program_id(0) // tiles_n * BLOCK_M
    col = tl.program_id(0) % tiles_n * BLOCK_N
    rows = row + tl.arange(0, BLOCK_M)[:, None, None]
    cols = col + tl.arange(0, BLOCK_N)[None, :, None]
    ks = tl.arange(0, CHUNK)[None, None, :]
    a_ptrs = a_ptr + rows.to(tl.int64) * a_stride + ks
    b_ptrs = b_ptr + cols.to(tl.int64) * b_stride + ks
    sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k_start in range(0, k, CHUNK):
        a = tl.load(a_ptrs + k_start, rows < m, other=0.0).to(tl.float32)
        b = tl.load(b_ptrs + k_start, cols < n, other=0.0).to(tl.float32)
        sums += tl.sum(a * b, 2)
    store(sums, c_ptr, c_stride, bias_ptr, row, col, m, n, BLOCK_M, BLOCK_N, EVEN, EPILOGUE)


twin = Twin(scalar)
