"""Hilbert order: programs take the tiles of C along a Hilbert curve.

Builds on tma_store_epilogue; changes the order of the tiles, and the number of programs. Fences and waits are those of
tma_store_epilogue. General: any m, and any n and k that are multiples of 8.

The curve goes through squares of C, of two tiles each if a tile is 128 x 256, and skips what is outside of C. To find
a tile's place takes a hundred instructions or more. The producer computes it while the ring is full. A consumer needs
it only at the end of its tile, and computes it under the products of the first step.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from triton_kernels.attention import gluon_warpgroups as wg
from triton_kernels.gemm import gluon_tiles as tiles
from triton_kernels.gemm.level_waves import level_waves


@gluon.jit
def _inside(first, size, end):
    """How many of the `size` tiles from `first` on lie in C."""
    return gl.maximum(gl.minimum(size, end - first), 0)


@gluon.jit
def _halve(number, first, size, end, others, backwards):
    """Cuts a square in two across a side and returns the half that has tile `number` of the curve.

    `others`: tiles of C on the other side. The curve comes to the half of lower tiles first, to that of higher ones if
    it runs backwards. Returns the number within the half, the side's first tile and size, and 1 for the second half.
    """
    size = size // 2
    count = _inside(first + backwards * size, size, end) * others
    second = (number >= count).to(gl.int32)
    return number - second * count, first + (second ^ backwards) * size, size, second


@gluon.jit
def hilbert_tile(number, m, n, BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr):
    """The first row and column of tile `number` of the curve through a square around C.

    The curve goes through the quarters of a square in a U. In the first quarter and the last it is turned, rows for
    columns; in the last it runs backwards too. Its smallest squares are tiles one below the other, or side by side.
    """
    a, a_size, a_end = 0, gl.maximum(BLOCK_N // BLOCK_M, 1), (m + BLOCK_M - 1) // BLOCK_M
    b, b_size, b_end = 0, gl.maximum(BLOCK_M // BLOCK_N, 1), (n + BLOCK_N - 1) // BLOCK_N
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


@gluon.jit
def _produce(loads, GROUPS: gl.constexpr):
    """Loads every tile as soon as its buffer is empty."""
    a_desc, b_desc, a_smem, b_smem, full, empty, m, n, k_tiles = loads
    BLOCK_M: gl.constexpr = GROUPS * a_smem.shape[1]
    BLOCK_N: gl.constexpr = b_smem.shape[1]
    BLOCK_K: gl.constexpr = b_smem.shape[2]
    step = 0
    for number in range(gl.program_id(0), tiles.count(m, n, BLOCK_M, BLOCK_N), gl.num_programs(0)):
        row, col = hilbert_tile(number, m, n, BLOCK_M, BLOCK_N)
        for j in range(k_tiles):
            stage = step % b_smem.shape[0]
            wg.wait_empty(empty, step)
            mbarrier.expect(full.index(stage), GROUPS * a_desc.block_type.nbytes + b_desc.block_type.nbytes)
            for group in gl.static_range(GROUPS):
                at = a_smem.index(stage * GROUPS + group)
                wg.load_async(a_desc, [row + group * a_smem.shape[1], j * BLOCK_K], full.index(stage), at)
            wg.load_async(b_desc, [col, j * BLOCK_K], full.index(stage), b_smem.index(stage))
            step += 1


@gluon.jit
def _consume(work, c_smem, GROUPS: gl.constexpr, GROUP: gl.constexpr, EPILOGUE: gl.constexpr):
    """Computes the rows of C of consumer warpgroup GROUP, tile after tile."""
    a_smem, b_smem, full, empty, c_desc, bias_ptr, m, n, k_tiles = work
    ROWS: gl.constexpr = a_smem.shape[1]
    BLOCK_N: gl.constexpr = b_smem.shape[1]
    BLOCK_M: gl.constexpr = GROUPS * ROWS
    step = 0
    for number in range(gl.program_id(0), tiles.count(m, n, BLOCK_M, BLOCK_N), gl.num_programs(0)):
        row, col = 0, 0
        sums = gl.zeros((ROWS, BLOCK_N), gl.float32, tiles.accumulator(BLOCK_N))
        for j in range(k_tiles):
            stage = step % b_smem.shape[0]
            wg.wait_full(full, step)

            # C += A B^T
            a, b = a_smem.index(stage * GROUPS + GROUP), b_smem.index(stage)
            sums = warpgroup_mma(a, b.permute((1, 0)), sums, is_async=True)
            if j == 0:
                row, col = hilbert_tile(number, m, n, BLOCK_M, BLOCK_N)
            sums = warpgroup_mma_wait(0, deps=[sums])
            wg.arrive(empty, step)
            step += 1

        # epilogue
        if BLOCK_N // c_desc.block_type.shape[1] % c_smem.shape[0] != 0:
            tma.store_wait(0)  # the boxes of each tile begin with the first buffer
        sums = tiles.finish(sums, bias_ptr, col, n, EPILOGUE)
        tiles.store_parts(sums, c_desc, c_smem, row + GROUP * ROWS, col, 0)
    tma.store_wait(0)


@gluon.jit
def hilbert_order(
    a_desc, b_desc, c_desc, bias_ptr, m, n, k,
    BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr, BLOCK_K: gl.constexpr, STAGES: gl.constexpr, GROUPS: gl.constexpr,
    C_BUFFERS: gl.constexpr, EPILOGUE: gl.constexpr,
):  # fmt: skip
    k_tiles = (k + BLOCK_K - 1) // BLOCK_K
    a_smem = gl.allocate_shared_memory(a_desc.dtype, [STAGES * GROUPS, BLOCK_M // GROUPS, BLOCK_K], a_desc.layout)
    b_smem = gl.allocate_shared_memory(b_desc.dtype, [STAGES, BLOCK_N, BLOCK_K], b_desc.layout)
    full = wg.barriers(STAGES, 1)
    empty = wg.barriers(STAGES, GROUPS)
    fence_async_shared()

    work = (a_smem, b_smem, full, empty, c_desc, bias_ptr, m, n, k_tiles)
    loads = (a_desc, b_desc, a_smem, b_smem, full, empty, m, n, k_tiles)
    first_c = tiles.buffers(c_desc, C_BUFFERS)
    # The registers of the launch, at most 65536, move from the producer to one or two consumer warpgroups.
    if GROUPS == 1:
        gl.warp_specialize([(_consume, (work, first_c, GROUPS, 0, EPILOGUE)), (_produce, (loads, GROUPS))], [1], [24])
    else:
        second_c = tiles.buffers(c_desc, C_BUFFERS)
        gl.warp_specialize(
            [
                (_consume, (work, first_c, GROUPS, 0, EPILOGUE)),
                (_consume, (work, second_c, GROUPS, 1, EPILOGUE)),
                (_produce, (loads, GROUPS)),
            ],
            [4, 1],
            [240, 24],
        )


twin = tiles.Twin(hilbert_order, tiles.options, grid=level_waves)
