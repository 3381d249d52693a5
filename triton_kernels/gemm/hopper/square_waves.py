"""Square waves: the tiles that are worked on at the same time cover about as many rows of C as columns.

Builds on tma_store_epilogue; changes the height of the groups in which tiles are taken: 2048 rows of C, whatever the
tile. General: any m, and any n and k that are multiples of 8.
"""

import triton
import triton.language as tl

from triton_kernels.gemm.epilogue import finish, grouped_tile, store_parts
from triton_kernels.gemm.specialization import Twin, options, persistent_tiles

GROUP_ROWS = tl.constexpr(2048)


@triton.jit
def square_waves(
    a_desc, b_desc, c_desc, bias_ptr, m, n, k,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, EPILOGUE: tl.constexpr,
):  # fmt: skip
    tiles = tl.cdiv(m, BLOCK_M) * tl.cdiv(n, BLOCK_N)
    for number in tl.range(tl.program_id(0), tiles, tl.num_programs(0), flatten=True):
        row, col = grouped_tile(number, m, n, BLOCK_M, BLOCK_N, GROUP_ROWS // BLOCK_M)
        sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for k_start in range(0, k, BLOCK_K):
            a = a_desc.load([row, k_start])
            b = b_desc.load([col, k_start])
            sums = tl.dot(a, b.T, sums)
        sums = finish(sums, bias_ptr, col, n, BLOCK_N, EPILOGUE)
        store_parts(sums, c_desc, row, col)


twin = Twin(square_waves, options, grid=persistent_tiles)
