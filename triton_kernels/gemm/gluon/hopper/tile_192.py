"""Tiles of 192 columns, or 320: the last wave is fuller at some sizes.

Builds on square_waves; changes the tile. Fences and waits are those of square_waves. General: any m, and any n and k
that are multiples of 8.

Tensors have powers of two for sizes. So a warpgroup has the sums of its first 128 or 256 columns and those of the other
64 in two tensors, and a step has two products with one A.
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
from triton_kernels.gemm import gluon_two_tensors as two_tensors
from triton_kernels.gemm.specialization import persistent_tiles

GROUP_ROWS = gl.constexpr(2048)


@gluon.jit
def _produce(loads, GROUPS: gl.constexpr):
    """Loads every tile as soon as its buffer is empty."""
    a_desc, b_desc, rest_desc, a_smem, b_smem, rest_smem, full, empty, m, n, k_tiles = loads
    BLOCK_M: gl.constexpr = GROUPS * a_smem.shape[1]
    FIRST: gl.constexpr = b_smem.shape[1]
    BLOCK_N: gl.constexpr = FIRST + rest_smem.shape[1]
    B_BYTES: gl.constexpr = b_desc.block_type.nbytes + rest_desc.block_type.nbytes
    BLOCK_K: gl.constexpr = b_smem.shape[2]
    step = 0
    for number in range(gl.program_id(0), tiles.count(m, n, BLOCK_M, BLOCK_N), gl.num_programs(0)):
        row, col = tiles.grouped_tile(number, m, n, BLOCK_M, BLOCK_N, GROUP_ROWS // BLOCK_M)
        for j in range(k_tiles):
            stage = step % b_smem.shape[0]
            wg.wait_empty(empty, step)
            mbarrier.expect(full.index(stage), GROUPS * a_desc.block_type.nbytes + B_BYTES)
            for group in gl.static_range(GROUPS):
                at = a_smem.index(stage * GROUPS + group)
                wg.load_async(a_desc, [row + group * a_smem.shape[1], j * BLOCK_K], full.index(stage), at)
            wg.load_async(b_desc, [col, j * BLOCK_K], full.index(stage), b_smem.index(stage))
            wg.load_async(rest_desc, [col + FIRST, j * BLOCK_K], full.index(stage), rest_smem.index(stage))
            step += 1


@gluon.jit
def _consume(work, c_smem, GROUPS: gl.constexpr, GROUP: gl.constexpr, EPILOGUE: gl.constexpr):
    """Computes the rows of C of consumer warpgroup GROUP, tile after tile."""
    a_smem, b_smem, rest_smem, full, empty, c_desc, bias_ptr, m, n, k_tiles = work
    ROWS: gl.constexpr = a_smem.shape[1]
    FIRST: gl.constexpr = b_smem.shape[1]
    REST: gl.constexpr = rest_smem.shape[1]
    BLOCK_N: gl.constexpr = FIRST + REST
    BLOCK_M: gl.constexpr = GROUPS * ROWS
    step = 0
    for number in range(gl.program_id(0), tiles.count(m, n, BLOCK_M, BLOCK_N), gl.num_programs(0)):
        row, col = tiles.grouped_tile(number, m, n, BLOCK_M, BLOCK_N, GROUP_ROWS // BLOCK_M)
        sums = gl.zeros((ROWS, FIRST), gl.float32, tiles.accumulator(FIRST))
        rest = gl.zeros((ROWS, REST), gl.float32, tiles.accumulator(REST))
        for _ in range(k_tiles):
            stage = step % b_smem.shape[0]
            wg.wait_full(full, step)

            # C += A B^T
            a, b, more = a_smem.index(stage * GROUPS + GROUP), b_smem.index(stage), rest_smem.index(stage)
            sums = warpgroup_mma(a, b.permute((1, 0)), sums, is_async=True)
            rest = warpgroup_mma(a, more.permute((1, 0)), rest, is_async=True)
            sums, rest = warpgroup_mma_wait(0, deps=[sums, rest])
            wg.arrive(empty, step)
            step += 1

        # epilogue
        if BLOCK_N // c_desc.block_type.shape[1] % c_smem.shape[0] != 0:
            tma.store_wait(0)  # the boxes of each tile begin with the first buffer
        sums = tiles.finish(sums, bias_ptr, col, n, EPILOGUE)
        tiles.store_parts(sums, c_desc, c_smem, row + GROUP * ROWS, col, 0)
        rest = tiles.finish(rest, bias_ptr, col + FIRST, n, EPILOGUE)
        tiles.store_parts(rest, c_desc, c_smem, row + GROUP * ROWS, col + FIRST, FIRST // c_desc.block_type.shape[1])
    tma.store_wait(0)


@gluon.jit
def tile_192(
    a_desc, b_desc, rest_desc, c_desc, bias_ptr, m, n, k,
    BLOCK_M: gl.constexpr, BLOCK_K: gl.constexpr, STAGES: gl.constexpr, GROUPS: gl.constexpr,
    C_BUFFERS: gl.constexpr, EPILOGUE: gl.constexpr,
):  # fmt: skip
    k_tiles = (k + BLOCK_K - 1) // BLOCK_K
    a_smem = gl.allocate_shared_memory(a_desc.dtype, [STAGES * GROUPS, BLOCK_M // GROUPS, BLOCK_K], a_desc.layout)
    b_smem = gl.allocate_shared_memory(b_desc.dtype, [STAGES, b_desc.block_type.shape[0], BLOCK_K], b_desc.layout)
    rest_shape: gl.constexpr = [STAGES, rest_desc.block_type.shape[0], BLOCK_K]
    rest_smem = gl.allocate_shared_memory(rest_desc.dtype, rest_shape, rest_desc.layout)
    full = wg.barriers(STAGES, 1)
    empty = wg.barriers(STAGES, GROUPS)
    fence_async_shared()

    work = (a_smem, b_smem, rest_smem, full, empty, c_desc, bias_ptr, m, n, k_tiles)
    loads = (a_desc, b_desc, rest_desc, a_smem, b_smem, rest_smem, full, empty, m, n, k_tiles)
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


twin = two_tensors.Twin(tile_192, tiles.options, grid=persistent_tiles)
