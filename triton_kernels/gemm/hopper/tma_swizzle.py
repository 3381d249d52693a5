"""Tiles come by TMA: one thread asks for a whole box, and hardware computes addresses and permutes columns.

Builds on wgmma; changes pointers to tensor descriptors, made on the host. General: any m, and any n and k that are
multiples of 8; what reaches past a matrix is read as zeros. The compiler makes the mbarriers, lets one thread load, and
chooses the swizzle: 128 bytes at 64 columns of 16 bits.
"""

import triton
import triton.language as tl

from triton_kernels.gemm.epilogue import grouped_tile, store
from triton_kernels.gemm.specialization import Twin

GROUP_M = tl.constexpr(8)


@triton.jit
def tma_swizzle(
    a_desc, b_desc, bias_ptr, c_ptr, c_stride, m, n, k,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, EVEN: tl.constexpr, EPILOGUE: tl.constexpr,
):  # fmt: skip
    row, col = grouped_tile(tl.program_id(0), m, n, BLOCK_M, BLOCK_N, GROUP_M)
    sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k_start in range(0, k, BLOCK_K):
        a = a_desc.load([row, k_start])
        b = b_desc.load([col, k_start])
        sums = tl.dot(a, b.T, sums)
    store(sums, c_ptr, c_stride, bias_ptr, row, col, m, n, BLOCK_M, BLOCK_N, EVEN, EPILOGUE)


twin = Twin(tma_swizzle)
