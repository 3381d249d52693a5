"""Hilbert order: programs take the tiles of C along a Hilbert curve.

Builds on tma_store_epilogue; changes the order of the tiles, and the number of programs. General: any m, and any n and
k that are multiples of 8.

The curve goes through squares of C, of two tiles each if a tile is 128 x 256, and skips what is outside of C. The
loop over levels is a `while`: with a `for` beside the one over k, the compiler does not flatten the loop over tiles.
"""

import triton
import triton.language as tl

from triton_kernels.gemm.epilogue import finish, store_parts
from triton_kernels.gemm.level_waves import level_waves
from triton_kernels.gemm.specialization import Twin, options


@triton.jit
def _inside(first, size, end):
    """How many of the `size` tiles from `first` on lie in C."""
    return max(min(size, end - first), 0)


@triton.jit
def _halve(number, first, size, end, others, backwards):
    """Cuts a square in two across a side and returns the half that has tile `number` of the curve.

    `others`: tiles of C on the other side. The curve comes to the half of lower tiles first, to that of higher ones if
    it runs backwards. Returns the number within the half, the side's first tile and size, and 1 for the second half.
    """
    size = size // 2
    count = _inside(first + backwards * size, size, end) * others
    second = (number >= count).to(tl.int32)
    return number - second * count, first + (second ^ backwards) * size, size, second


@triton.jit
def hilbert_tile(number, m, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """The first row and column of tile `number` of the curve through a square around C.

    The curve goes through the quarters of a square in a U. In the first quarter and the last it is turned, rows for
    columns; in the last it runs backwards too. Its smallest squares are tiles one below the other, or side by side.
    """
    a, a_size, a_end = 0, max(BLOCK_N // BLOCK_M, 1), tl.cdiv(m, BLOCK_M)
    b, b_size, b_end = 0, max(BLOCK_M // BLOCK_N, 1), tl.cdiv(n, BLOCK_N)
    levels = 0
    while (a_size < a_end) | (b_size < b_end):
        a_size *= 2
        b_size *= 2
        levels += 1
    turned, backwards = 0, 0
    while levels > 0:
        number, a, a_size, second = _halve(number, a, a_size, a_end, _inside(b, b_size, b_end), backwards)
        number, b, b_size, last = _halve(number, b, b_size, b_end, _inside(a, a_size, a_end), second ^ backwards)
        if second == last:
            a, a_size, a_end, b, b_size, b_end = b, b_size, b_end, a, a_size, a_end
            turned ^= 1
        backwards ^= second & last
        levels -= 1
    if turned:
        a, b = b, a
    if BLOCK_M > BLOCK_N:
        b += number
    else:
        a += number
    return a * BLOCK_M, b * BLOCK_N


@triton.jit
def hilbert_order(
    a_desc, b_desc, c_desc, bias_ptr, m, n, k,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, EPILOGUE: tl.constexpr,
):  # fmt: skip
    tiles = tl.cdiv(m, BLOCK_M) * tl.cdiv(n, BLOCK_N)
    for number in tl.range(tl.program_id(0), tiles, tl.num_programs(0), flatten=True):
        row, col = hilbert_tile(number, m, n, BLOCK_M, BLOCK_N)
        sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for k_start in range(0, k, BLOCK_K):
            a = a_desc.load([row, k_start])
            b = b_desc.load([col, k_start])
            sums = tl.dot(a, b.T, sums)
        sums = finish(sums, bias_ptr, col, n, BLOCK_N, EPILOGUE)
        store_parts(sums, c_desc, row, col)


twin = Twin(hilbert_order, options, grid=level_waves)
