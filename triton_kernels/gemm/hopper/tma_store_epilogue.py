"""C leaves by TMA from shared memory while the next tile is multiplied.

Builds on persistent; changes how C is written: through a descriptor, in parts of 32 KB. General: any m, and any n and k
that are multiples of 8.

The compiler passes a part through a buffer in shared memory, has TMA store it, and waits for that only before it writes
to the buffer again. So the last part of a tile leaves under the next tile's products. Cutting the sums in halves moves
no value to another thread, and keeps the buffer so small that four stages of a tile of 128 x 256 fit beside it. The
store overlaps only in a loop without roles: with `warp_specialize=True` the compiler waits for it at once.
"""

import triton
import triton.language as tl

from triton_kernels.gemm.epilogue import finish, grouped_tile, store_parts
from triton_kernels.gemm.specialization import Twin, options, persistent_tiles

GROUP_M = tl.constexpr(8)


@triton.jit
def tma_store_epilogue(
    a_desc, b_desc, c_desc, bias_ptr, m, n, k,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, EPILOGUE: tl.constexpr,
):  # fmt: skip
    tiles = tl.cdiv(m, BLOCK_M) * tl.cdiv(n, BLOCK_N)
    for number in tl.range(tl.program_id(0), tiles, tl.num_programs(0), flatten=True):
        row, col = grouped_tile(number, m, n, BLOCK_M, BLOCK_N, GROUP_M)
        sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for k_start in range(0, k, BLOCK_K):
            a = a_desc.load([row, k_start])
            b = b_desc.load([col, k_start])
            sums = tl.dot(a, b.T, sums)
        sums = finish(sums, bias_ptr, col, n, BLOCK_N, EPILOGUE)
        store_parts(sums, c_desc, row, col)


twin = Twin(tma_store_epilogue, options, grid=persistent_tiles)
