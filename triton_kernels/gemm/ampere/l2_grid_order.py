"""Programs that run at the same time share rows of A and of B, so that these stay in L2.

Builds on cp_async_pipeline; changes which tile of C a program takes: programs start in the order of their numbers, go
down a group of eight rows of tiles and then to the next column.
"""

import triton
import triton.language as tl

from triton_kernels.gemm.epilogue import grouped_tile, store
from triton_kernels.gemm.specialization import Twin

GROUP_M = tl.constexpr(8)


@triton.jit
def l2_grid_order(
    a_ptr, b_ptr, bias_ptr, c_ptr, a_stride, b_stride, c_stride, m, n, k,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, EPILOGUE: tl.constexpr,
):  # fmt: skip
    row, col = grouped_tile(tl.program_id(0), m, n, BLOCK_M, BLOCK_N, GROUP_M)
    ks = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + (row + tl.arange(0, BLOCK_M)).to(tl.int64)[:, None] * a_stride + ks[None, :]
    b_ptrs = b_ptr + (col + tl.arange(0, BLOCK_N)).to(tl.int64)[:, None] * b_stride + ks[None, :]
    sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k_start in range(0, k, BLOCK_K):
        a = tl.load(a_ptrs + k_start)
        b = tl.load(b_ptrs + k_start)
        sums = tl.dot(a, b.T, sums)
    store(sums, c_ptr, c_stride, bias_ptr, row, col, m, n, BLOCK_M, BLOCK_N, True, EPILOGUE)


twin = Twin(l2_grid_order)
