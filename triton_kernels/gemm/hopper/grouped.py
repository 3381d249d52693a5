"""Groups: one launch multiplies the rows of each by a B of its own, as in a layer of experts.

Builds on square_waves; changes which tile a program takes, and where a store ends. General: any m in a group, 0
too, and any n and k that are multiples of 8.

The sizes of groups lie in device memory: the host knows their sum alone. A program holds the ends of all groups and the
numbers of their tiles, one element a thread, and finds the group of a tile by counting those that end before it: a
search without a loop, so that `flatten=True` still makes one loop over the steps of all tiles. The last tile of a group
has rows of the next one. A ragged descriptor of C, from Triton's own tools, cuts them off: the group's end is a
coordinate of the store.
"""

import triton
import triton.language as tl
from triton.tools.ragged_tma import to_ragged_indices

from triton_kernels.gemm.epilogue import finish, halves
from triton_kernels.gemm.groups import Twin, ends, find, programs
from triton_kernels.gemm.specialization import options

GROUP_ROWS = tl.constexpr(2048)


@triton.jit
def store_parts(sums, c_desc, begin, rows, row, col):
    """Writes the tile at (row, col) of the group that begins at row `begin` of C, in parts as wide as a box."""
    PART_N: tl.constexpr = c_desc.block_shape[3]
    if sums.shape[1] == PART_N:
        wrap, end, place = to_ragged_indices(begin, rows, row)
        c_desc.store([wrap, end, place, col], sums.to(c_desc.dtype).reshape(c_desc.block_shape))
    else:
        left, right = halves(sums)
        store_parts(left, c_desc, begin, rows, row, col)
        store_parts(right, c_desc, begin, rows, row, col + left.shape[1])


@triton.jit
def grouped(
    a_desc, b_desc, c_desc, bias_ptr, offsets_ptr, groups, m, n, k,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUPS: tl.constexpr,
    EPILOGUE: tl.constexpr,
):  # fmt: skip
    end, last = ends(offsets_ptr, groups, m, n, BLOCK_M, BLOCK_N, GROUPS)
    for number in tl.range(tl.program_id(0), tl.max(last, 0), tl.num_programs(0), flatten=True):
        group, begin, behind, row, col = find(number, end, last, m, n, BLOCK_M, BLOCK_N, GROUP_ROWS // BLOCK_M)
        sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for k_start in range(0, k, BLOCK_K):
            a = a_desc.load([begin + row, k_start])
            b = b_desc.load([group, col, k_start]).reshape(BLOCK_N, BLOCK_K)
            sums = tl.dot(a, b.T, sums)
        sums = finish(sums, bias_ptr, col, n, BLOCK_N, EPILOGUE)
        store_parts(sums, c_desc, begin, behind - begin, row, col)


twin = Twin(grouped, options, grid=programs)
