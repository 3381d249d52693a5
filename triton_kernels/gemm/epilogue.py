"""The epilogue of a tile's sums and how the tile is written: the same in all kernels."""

import triton
import triton.language as tl

GELU_SCALE = tl.constexpr(1.5957691216057308)
"""2 sqrt(2 / pi)."""


@triton.jit
def finish(sums, bias_ptr, col, n, BLOCK_N: tl.constexpr, EPILOGUE: tl.constexpr):
    """Adds the bias of the columns from `col` on, and applies GELU in its tanh form."""
    if EPILOGUE != "plain":
        cols = col + tl.arange(0, BLOCK_N)
        bias = tl.load(bias_ptr + cols, cols < n, other=0.0)
        sums += bias.to(tl.float32)[None, :]
    if EPILOGUE == "gelu":
        sums *= tl.sigmoid(GELU_SCALE * (sums + 0.044715 * sums * sums * sums))
    return sums


@triton.jit
def store(
    sums, c_ptr, c_stride, bias_ptr, row, col, m, n,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, EVEN: tl.constexpr, EPILOGUE: tl.constexpr,
):  # fmt: skip
    """Finishes the sums and writes the tile of C that begins at (row, col)."""
    sums = finish(sums, bias_ptr, col, n, BLOCK_N, EPILOGUE)
    rows = row + tl.arange(0, BLOCK_M)
    cols = col + tl.arange(0, BLOCK_N)
    c_ptrs = c_ptr + rows.to(tl.int64)[:, None] * c_stride + cols[None, :]
    if EVEN:
        tl.store(c_ptrs, sums.to(c_ptr.dtype.element_ty))
    else:
        tl.store(c_ptrs, sums.to(c_ptr.dtype.element_ty), (rows < m)[:, None] & (cols < n)[None, :])


@triton.jit
def halves(sums):
    """The left and the right half of the columns: no value changes its thread."""
    return tl.split(tl.permute(tl.reshape(sums, (sums.shape[0], 2, sums.shape[1] // 2)), (0, 2, 1)))


@triton.jit
def store_parts(sums, c_desc, row, col):
    """Writes the tile of C that begins at (row, col) by TMA, in parts as wide as the descriptor's boxes."""
    PART_N: tl.constexpr = c_desc.block_shape[1]
    if sums.shape[1] == PART_N:
        c_desc.store([row, col], sums.to(c_desc.dtype))
    else:
        left, right = halves(sums)
        store_parts(left, c_desc, row, col)
        store_parts(right, c_desc, row, col + left.shape[1])


@triton.jit
def grouped_tile(number, m, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP_M: tl.constexpr):
    """The first row and column of the tile that a program takes: groups of GROUP_M rows of tiles, column by column."""
    tiles_m = tl.cdiv(m, BLOCK_M)
    in_group = GROUP_M * tl.cdiv(n, BLOCK_N)
    first = number // in_group * GROUP_M
    rows = min(tiles_m - first, GROUP_M)
    return (first + number % in_group % rows) * BLOCK_M, number % in_group // rows * BLOCK_N
