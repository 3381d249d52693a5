"""m may be contiguous in A, and n in B: nothing is copied, TMA and wgmma take both as they lie.

Builds on persistent; changes the boxes that descriptors load, and which tiles are transposed before the product.
General: n and k are multiples of 8; so is m where it is contiguous.

A descriptor's last dimension is the contiguous one, so a tile is loaded as k by m, or k by n. The compiler makes no
transposed copy: `.T` becomes another view of the same shared memory, and wgmma has a bit for each operand. It splits a
box of more than 128 bytes of m or n into several, and a warp loads each.
"""

import triton
import triton.language as tl

from triton_kernels.gemm.epilogue import grouped_tile, store
from triton_kernels.gemm.majors import Twin
from triton_kernels.gemm.specialization import options, persistent_tiles

GROUP_M = tl.constexpr(8)


@triton.jit
def either_major(
    a_desc, b_desc, bias_ptr, c_ptr, c_stride, m, n, k,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, EVEN: tl.constexpr, EPILOGUE: tl.constexpr,
    M_CONTIGUOUS: tl.constexpr, N_CONTIGUOUS: tl.constexpr,
):  # fmt: skip
    tiles = tl.cdiv(m, BLOCK_M) * tl.cdiv(n, BLOCK_N)
    for number in tl.range(tl.program_id(0), tiles, tl.num_programs(0), flatten=True):
        row, col = grouped_tile(number, m, n, BLOCK_M, BLOCK_N, GROUP_M)
        sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for k_start in range(0, k, BLOCK_K):
            a = a_desc.load([k_start, row]).T if M_CONTIGUOUS else a_desc.load([row, k_start])
            b = b_desc.load([k_start, col]) if N_CONTIGUOUS else b_desc.load([col, k_start]).T
            sums = tl.dot(a, b, sums)
        store(sums, c_ptr, c_stride, bias_ptr, row, col, m, n, BLOCK_M, BLOCK_N, EVEN, EPILOGUE)


twin = Twin(either_major, options, grid=persistent_tiles)
