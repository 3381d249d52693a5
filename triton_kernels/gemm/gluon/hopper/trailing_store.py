"""C of a tile leaves under the products of the next one.

Builds on square_waves; changes when C is stored. Fences and waits are those of square_waves. General: any m, and any n
and k that are multiples of 8.

The end of a tile packs its sums to 16 bits. In each of the next tile's first steps a warpgroup issues the products,
stores one box of C, and then waits for the products. A tile with fewer steps than C has boxes stores before its
products. C in 32 bits does not fit beside the sums and is stored at the end of its tile.
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
from triton_kernels.gemm.specialization import persistent_tiles

GROUP_ROWS = gl.constexpr(2048)


@gluon.jit
def _produce(loads, GROUPS: gl.constexpr):
    """Loads every tile as soon as its buffer is empty."""
    a_desc, b_desc, a_smem, b_smem, full, empty, m, n, k_tiles = loads
    BLOCK_M: gl.constexpr = GROUPS * a_smem.shape[1]
    BLOCK_N: gl.constexpr = b_smem.shape[1]
    BLOCK_K: gl.constexpr = b_smem.shape[2]
    step = 0
    for number in range(gl.program_id(0), tiles.count(m, n, BLOCK_M, BLOCK_N), gl.num_programs(0)):
        row, col = tiles.grouped_tile(number, m, n, BLOCK_M, BLOCK_N, GROUP_ROWS // BLOCK_M)
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
def _store_box(c, number, c_desc, c_smem, row, col, FIRST: gl.constexpr):
    """Writes box `number` of a tile by TMA. `c` has the tile's columns from box FIRST on, which begin at (row, col)."""
    columns: gl.constexpr = c_desc.block_type.shape[1]
    BOXES: gl.constexpr = c.shape[1] // columns
    if BOXES == 1:
        tiles.store_parts(c, c_desc, c_smem, row, col, FIRST)
    else:
        half: gl.constexpr = c.shape[1] // 2
        left, right = gl.split(gl.permute(gl.reshape(c, (c.shape[0], 2, half)), (0, 2, 1)))
        if number < FIRST + BOXES // 2:
            _store_box(left, number, c_desc, c_smem, row, col, FIRST)
        else:
            _store_box(right, number, c_desc, c_smem, row, col + half, FIRST + BOXES // 2)


@gluon.jit
def _consume(work, c_smem, GROUPS: gl.constexpr, GROUP: gl.constexpr, EPILOGUE: gl.constexpr):
    """Computes the rows of C of consumer warpgroup GROUP, tile after tile."""
    a_smem, b_smem, full, empty, c_desc, bias_ptr, m, n, k_tiles = work
    ROWS: gl.constexpr = a_smem.shape[1]
    BLOCK_N: gl.constexpr = b_smem.shape[1]
    BLOCK_M: gl.constexpr = GROUPS * ROWS
    BOXES: gl.constexpr = BLOCK_N // c_desc.block_type.shape[1]
    TRAILS: gl.constexpr = c_desc.dtype.primitive_bitwidth == 16
    c = gl.zeros((ROWS, BLOCK_N), c_desc.dtype, tiles.accumulator(BLOCK_N))
    c_row, c_col = 0, 0
    step, stored = 0, BOXES  # of the boxes of c
    for number in range(gl.program_id(0), tiles.count(m, n, BLOCK_M, BLOCK_N), gl.num_programs(0)):
        row, col = tiles.grouped_tile(number, m, n, BLOCK_M, BLOCK_N, GROUP_ROWS // BLOCK_M)
        if BOXES % c_smem.shape[0] != 0:
            tma.store_wait(0)  # the boxes of each tile begin with the first buffer
        if (k_tiles < BOXES) & (stored < BOXES):
            tiles.store_parts(c, c_desc, c_smem, c_row, c_col, 0)
            stored = BOXES
        sums = gl.zeros((ROWS, BLOCK_N), gl.float32, tiles.accumulator(BLOCK_N))
        for _ in range(k_tiles):
            stage = step % b_smem.shape[0]
            wg.wait_full(full, step)

            # C += A B^T
            a, b = a_smem.index(stage * GROUPS + GROUP), b_smem.index(stage)
            sums = warpgroup_mma(a, b.permute((1, 0)), sums, is_async=True)
            if stored < BOXES:
                _store_box(c, stored, c_desc, c_smem, c_row, c_col, 0)
                stored += 1
            sums = warpgroup_mma_wait(0, deps=[sums])
            wg.arrive(empty, step)
            step += 1

        # epilogue
        sums = tiles.finish(sums, bias_ptr, col, n, EPILOGUE)
        if TRAILS:
            c, c_row, c_col, stored = sums.to(c_desc.dtype), row + GROUP * ROWS, col, 0
        else:
            if BOXES % c_smem.shape[0] != 0:
                tma.store_wait(0)
            tiles.store_parts(sums, c_desc, c_smem, row + GROUP * ROWS, col, 0)
    if stored < BOXES:
        if BOXES % c_smem.shape[0] != 0:
            tma.store_wait(0)
        tiles.store_parts(c, c_desc, c_smem, c_row, c_col, 0)
    tma.store_wait(0)


@gluon.jit
def trailing_store(
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


twin = tiles.Twin(trailing_store, tiles.options, grid=persistent_tiles)
