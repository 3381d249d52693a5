"""Few rows of C: operands change places, so that rows of B fill the 64 rows of wgmma.

Builds on split_k; changes the order of the operands: C^T = B A^T. General: any m, and any n and k that are multiples of
8. The columns of wgmma are the few rows of A, and it takes as few as 8. The compiler passes a tile's sums through
shared memory to store them by rows of C. The barrier before the count is needed as in split_k.
"""

import triton
import triton.language as tl

from triton_kernels.gemm.epilogue import grouped_tile, store
from triton_kernels.gemm.specialization import Twin, split_tiles

GROUP_M = tl.constexpr(8)


@triton.jit(do_not_specialize=["splits"])
def small_m(
    a_desc, b_desc, bias_ptr, c_ptr, c_stride, m, n, k, splits, counter_ptr, part_ptr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, EVEN: tl.constexpr, EPILOGUE: tl.constexpr,
):  # fmt: skip
    number = tl.program_id(0) // splits
    split = tl.program_id(0) % splits
    row, col = grouped_tile(number, m, n, BLOCK_M, BLOCK_N, GROUP_M)
    k_tiles = tl.cdiv(k, BLOCK_K)
    steps = tl.cdiv(k_tiles, splits)
    sums = tl.zeros((BLOCK_N, BLOCK_M), tl.float32)
    for step in range(split * steps, min((split + 1) * steps, k_tiles)):
        a = a_desc.load([row, step * BLOCK_K])
        b = b_desc.load([col, step * BLOCK_K])
        sums = tl.dot(b, a.T, sums)

    # leave this part; whoever comes last adds all of them
    comes_last = splits == 1
    if not comes_last:
        places = tl.arange(0, BLOCK_N)[:, None] * BLOCK_M + tl.arange(0, BLOCK_M)[None, :]
        part_ptrs = part_ptr + number * splits * BLOCK_M * BLOCK_N + places
        tl.store(part_ptrs + split * BLOCK_M * BLOCK_N, sums)
        tl.debug_barrier()
        comes_last = tl.atomic_add(counter_ptr + number, 1, sem="acq_rel") == splits - 1
        if comes_last:
            tl.store(counter_ptr + number, 0)
            sums = tl.zeros((BLOCK_N, BLOCK_M), tl.float32)
            for other in range(splits):
                sums += tl.load(part_ptrs + other * BLOCK_M * BLOCK_N, cache_modifier=".cg")
    if comes_last:
        store(sums.T, c_ptr, c_stride, bias_ptr, row, col, m, n, BLOCK_M, BLOCK_N, EVEN, EPILOGUE)


twin = Twin(small_m, grid=split_tiles)
