"""Persistent programs, one per multiprocessor: the next tile's A and B load during the epilogue of the one before.

Builds on tma_swizzle; changes the launch and puts a loop around the program. General: any m, and any n and k that are
multiples of 8.

`flatten=True` makes one loop of the two, over the steps of all tiles, whose pipeline the compiler does not drain at the
end of a tile. Core Triton cannot have that and roles: with `warp_specialize=True` beside it the compiler silently drops
the roles. So 8 warps load and multiply here, as in tma_swizzle, at the tile of two_consumers.
"""

import triton
import triton.language as tl

from triton_kernels.gemm.epilogue import grouped_tile, store
from triton_kernels.gemm.specialization import Twin, options, persistent_tiles

GROUP_M = tl.constexpr(8)


@triton.jit
def persistent(
    a_desc, b_desc, bias_ptr, c_ptr, c_stride, m, n, k,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, EVEN: tl.constexpr, EPILOGUE: tl.constexpr,
):  # fmt: skip
    tiles = tl.cdiv(m, BLOCK_M) * tl.cdiv(n, BLOCK_N)
    for number in tl.range(tl.program_id(0), tiles, tl.num_programs(0), flatten=True):
        row, col = grouped_tile(number, m, n, BLOCK_M, BLOCK_N, GROUP_M)
        sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for k_start in range(0, k, BLOCK_K):
            a = a_desc.load([row, k_start])
            b = b_desc.load([col, k_start])
            sums = tl.dot(a, b.T, sums)
        store(sums, c_ptr, c_stride, bias_ptr, row, col, m, n, BLOCK_M, BLOCK_N, EVEN, EPILOGUE)


twin = Twin(persistent, options, grid=persistent_tiles)
