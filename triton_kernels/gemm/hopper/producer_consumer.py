"""A producer loads and two warpgroups multiply: `warp_specialize=True` on the loop over k.

Builds on mbarrier_ring; changes which warps do what. General: any m, and any n and k that are multiples of 8.

Core Triton cannot name roles, only hint at them. On sm_90 the compiler follows the hint for a loop over k with 4 warps,
128 rows and descriptors made by the kernel: it adds a producer, splits the rows between two warpgroups of 4 warps,
moves registers by setmaxnreg (40 for the producer, 232 for the others) and makes the barriers of the ring. With 8 warps
it silently ignores the hint. So Triton gets 4 warps whatever tile.warps says, which counts the warps that do math, and
there are always two consumers. Descriptors need memory in every launch, which comes from the workspace.

The compiler gives the second warpgroup the rows from 64 on in two ways: it adds 64 to a descriptor's coordinate, and it
lets a range of rows begin at 64. Where one value is both the coordinate and the first row, that warpgroup writes C 64
rows too low. So the first row of C is made by way of 64 bits: a value of its own, in which the compiler does not see
the coordinate.
"""

import triton
import triton.language as tl

from triton_kernels.gemm.epilogue import grouped_tile, store
from triton_kernels.gemm.specialization import Twin, options

GROUP_M = tl.constexpr(8)


@triton.jit
def producer_consumer(
    a_ptr, b_ptr, bias_ptr, c_ptr, a_stride, b_stride, c_stride, m, n, k,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, EVEN: tl.constexpr, EPILOGUE: tl.constexpr,
):  # fmt: skip
    a_desc = tl.make_tensor_descriptor(a_ptr, [m, k], [a_stride, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b_ptr, [n, k], [b_stride, 1], [BLOCK_N, BLOCK_K])
    number = tl.program_id(0)
    row, col = grouped_tile(number, m, n, BLOCK_M, BLOCK_N, GROUP_M)
    c_row, _ = grouped_tile(number.to(tl.int64), m, n, BLOCK_M, BLOCK_N, GROUP_M)  # no descriptor's coordinate
    sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k_start in tl.range(0, k, BLOCK_K, warp_specialize=True):
        a = a_desc.load([row, k_start])
        b = b_desc.load([col, k_start])
        sums = tl.dot(a, b.T, sums)
    store(sums, c_ptr, c_stride, bias_ptr, c_row.to(tl.int32), col, m, n, BLOCK_M, BLOCK_N, EVEN, EPILOGUE)


def _options(tile):
    return {**options(tile), "num_warps": 4}


twin = Twin(producer_consumer, _options, makes_descriptors=True)
