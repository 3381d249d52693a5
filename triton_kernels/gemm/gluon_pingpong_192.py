"""pingpong_192, a schedule of Gluon's flagship and no rung: turns at tiles of 192 columns.

Builds on pingpong_store (gluon_pingpong.py); changes the tile, which needs fewer bytes from L2. A warpgroup has the
sums of its tile in two tensors, as in tile_192, and a step has two groups of products: the wait leaves two in flight,
which are one step. Fences are those of pingpong_store.
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
def _produce(loads):
    """Loads every tile as soon as its buffer is empty."""
    a_desc, b_desc, rest_desc, a_smem, b_smem, rest_smem, full, empty, m, n, k_tiles = loads
    BLOCK_M: gl.constexpr = a_smem.shape[1]
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
            mbarrier.expect(full.index(stage), a_desc.block_type.nbytes + B_BYTES)
            wg.load_async(a_desc, [row, j * BLOCK_K], full.index(stage), a_smem.index(stage))
            wg.load_async(b_desc, [col, j * BLOCK_K], full.index(stage), b_smem.index(stage))
            wg.load_async(rest_desc, [col + FIRST, j * BLOCK_K], full.index(stage), rest_smem.index(stage))
            step += 1


@gluon.jit
def _consume(work, c_smem, GROUP: gl.constexpr, EPILOGUE: gl.constexpr):
    """Computes every other tile of C of the block: those of consumer warpgroup GROUP."""
    a_smem, b_smem, rest_smem, full, empty, turns, c_desc, bias_ptr, m, n, k_tiles = work
    BLOCK_M: gl.constexpr = a_smem.shape[1]
    FIRST: gl.constexpr = b_smem.shape[1]
    REST: gl.constexpr = rest_smem.shape[1]
    BLOCK_N: gl.constexpr = FIRST + REST
    first = gl.program_id(0) + GROUP * gl.num_programs(0)
    step = GROUP * k_tiles
    for number in range(first, tiles.count(m, n, BLOCK_M, BLOCK_N), 2 * gl.num_programs(0)):
        row, col = tiles.grouped_tile(number, m, n, BLOCK_M, BLOCK_N, GROUP_ROWS // BLOCK_M)
        sums = gl.zeros((BLOCK_M, FIRST), gl.float32, tiles.accumulator(FIRST))
        rest = gl.zeros((BLOCK_M, REST), gl.float32, tiles.accumulator(REST))
        wg.wait_turn(turns, number // (2 * gl.num_programs(0)), GROUP)
        for j in range(k_tiles):
            stage = step % b_smem.shape[0]
            wg.wait_full(full, step)

            # C += A B^T
            a, b, more = a_smem.index(stage), b_smem.index(stage), rest_smem.index(stage)
            sums = warpgroup_mma(a, b.permute((1, 0)), sums, is_async=True)
            rest = warpgroup_mma(a, more.permute((1, 0)), rest, is_async=True)
            sums, rest = warpgroup_mma_wait(2, deps=[sums, rest])
            if j > 0:
                wg.arrive(empty, step - 1)
            step += 1
        wg.pass_turn(turns, GROUP)
        sums, rest = warpgroup_mma_wait(0, deps=[sums, rest])
        wg.arrive(empty, step - 1)
        step += k_tiles  # past the other warpgroup's tile

        # epilogue
        if BLOCK_N // c_desc.block_type.shape[1] % c_smem.shape[0] != 0:
            tma.store_wait(0)  # the boxes of each tile begin with the first buffer
        sums = tiles.finish(sums, bias_ptr, col, n, EPILOGUE)
        tiles.store_parts(sums, c_desc, c_smem, row, col, 0)
        rest = tiles.finish(rest, bias_ptr, col + FIRST, n, EPILOGUE)
        tiles.store_parts(rest, c_desc, c_smem, row, col + FIRST, FIRST // c_desc.block_type.shape[1])
    tma.store_wait(0)


@gluon.jit
def pingpong_192(
    a_desc, b_desc, rest_desc, c_desc, bias_ptr, m, n, k,
    BLOCK_M: gl.constexpr, BLOCK_K: gl.constexpr, STAGES: gl.constexpr,
    C_BUFFERS: gl.constexpr, EPILOGUE: gl.constexpr,
):  # fmt: skip
    k_tiles = (k + BLOCK_K - 1) // BLOCK_K
    a_smem = gl.allocate_shared_memory(a_desc.dtype, [STAGES, BLOCK_M, BLOCK_K], a_desc.layout)
    b_smem = gl.allocate_shared_memory(b_desc.dtype, [STAGES, b_desc.block_type.shape[0], BLOCK_K], b_desc.layout)
    rest_shape: gl.constexpr = [STAGES, rest_desc.block_type.shape[0], BLOCK_K]
    rest_smem = gl.allocate_shared_memory(rest_desc.dtype, rest_shape, rest_desc.layout)
    full = wg.barriers(STAGES, 1)
    empty = wg.barriers(STAGES, 1)
    turns = wg.barriers(2, 1)
    fence_async_shared()

    work = (a_smem, b_smem, rest_smem, full, empty, turns, c_desc, bias_ptr, m, n, k_tiles)
    loads = (a_desc, b_desc, rest_desc, a_smem, b_smem, rest_smem, full, empty, m, n, k_tiles)
    first_c, second_c = tiles.buffers(c_desc, C_BUFFERS), tiles.buffers(c_desc, C_BUFFERS)
    # The registers of the launch, at most 65536, move from the producer to the consumer warpgroups.
    gl.warp_specialize(
        [
            (_consume, (work, first_c, 0, EPILOGUE)),
            (_consume, (work, second_c, 1, EPILOGUE)),
            (_produce, (loads,)),
        ],
        [4, 1],
        [240, 24],
    )


twin = two_tensors.Twin(pingpong_192, tiles.options, grid=persistent_tiles, tile_each=True)
