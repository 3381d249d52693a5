"""pingpong_store, a schedule of Gluon's flagship and no rung: pingpong, whose warpgroups write C by TMA.

Builds on gluon/hopper/pingpong; changes the epilogue to that of tma_store_epilogue, and the order of tiles to that of
square_waves. Each warpgroup has a tile of its own, which hides the epilogue under the other one's products, and storing
boxes of C makes it short: both count where k is short. Fences and waits are those of pingpong and tma_store_epilogue.
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
def _produce(loads):
    """Loads every tile as soon as its buffer is empty."""
    a_desc, b_desc, a_smem, b_smem, full, empty, m, n, k_tiles = loads
    BLOCK_M: gl.constexpr = a_smem.shape[1]
    BLOCK_N: gl.constexpr = b_smem.shape[1]
    BLOCK_K: gl.constexpr = b_smem.shape[2]
    step = 0
    for number in range(gl.program_id(0), tiles.count(m, n, BLOCK_M, BLOCK_N), gl.num_programs(0)):
        row, col = tiles.grouped_tile(number, m, n, BLOCK_M, BLOCK_N, GROUP_ROWS // BLOCK_M)
        for j in range(k_tiles):
            stage = step % b_smem.shape[0]
            wg.wait_empty(empty, step)
            mbarrier.expect(full.index(stage), a_desc.block_type.nbytes + b_desc.block_type.nbytes)
            wg.load_async(a_desc, [row, j * BLOCK_K], full.index(stage), a_smem.index(stage))
            wg.load_async(b_desc, [col, j * BLOCK_K], full.index(stage), b_smem.index(stage))
            step += 1


@gluon.jit
def _consume(work, c_smem, GROUP: gl.constexpr, EPILOGUE: gl.constexpr):
    """Computes every other tile of C of the block: those of consumer warpgroup GROUP."""
    a_smem, b_smem, full, empty, turns, c_desc, bias_ptr, m, n, k_tiles = work
    BLOCK_M: gl.constexpr = a_smem.shape[1]
    BLOCK_N: gl.constexpr = b_smem.shape[1]
    first = gl.program_id(0) + GROUP * gl.num_programs(0)
    step = GROUP * k_tiles
    for number in range(first, tiles.count(m, n, BLOCK_M, BLOCK_N), 2 * gl.num_programs(0)):
        row, col = tiles.grouped_tile(number, m, n, BLOCK_M, BLOCK_N, GROUP_ROWS // BLOCK_M)
        sums = gl.zeros((BLOCK_M, BLOCK_N), gl.float32, tiles.accumulator(BLOCK_N))
        wg.wait_turn(turns, number // (2 * gl.num_programs(0)), GROUP)
        for j in range(k_tiles):
            stage = step % b_smem.shape[0]
            wg.wait_full(full, step)

            # C += A B^T
            a, b = a_smem.index(stage), b_smem.index(stage)
            sums = warpgroup_mma(a, b.permute((1, 0)), sums, is_async=True)
            sums = warpgroup_mma_wait(1, deps=[sums])
            if j > 0:
                wg.arrive(empty, step - 1)
            step += 1
        wg.pass_turn(turns, GROUP)
        sums = warpgroup_mma_wait(0, deps=[sums])
        wg.arrive(empty, step - 1)
        step += k_tiles  # past the other warpgroup's tile

        # epilogue
        if BLOCK_N // c_desc.block_type.shape[1] % c_smem.shape[0] != 0:
            tma.store_wait(0)  # the boxes of each tile begin with the first buffer
        sums = tiles.finish(sums, bias_ptr, col, n, EPILOGUE)
        tiles.store_parts(sums, c_desc, c_smem, row, col, 0)
    tma.store_wait(0)


@gluon.jit
def pingpong_store(
    a_desc, b_desc, c_desc, bias_ptr, m, n, k,
    BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr, BLOCK_K: gl.constexpr, STAGES: gl.constexpr,
    C_BUFFERS: gl.constexpr, EPILOGUE: gl.constexpr,
):  # fmt: skip
    k_tiles = (k + BLOCK_K - 1) // BLOCK_K
    a_smem = gl.allocate_shared_memory(a_desc.dtype, [STAGES, BLOCK_M, BLOCK_K], a_desc.layout)
    b_smem = gl.allocate_shared_memory(b_desc.dtype, [STAGES, BLOCK_N, BLOCK_K], b_desc.layout)
    full = wg.barriers(STAGES, 1)
    empty = wg.barriers(STAGES, 1)
    turns = wg.barriers(2, 1)
    fence_async_shared()

    work = (a_smem, b_smem, full, empty, turns, c_desc, bias_ptr, m, n, k_tiles)
    loads = (a_desc, b_desc, a_smem, b_smem, full, empty, m, n, k_tiles)
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


twin = tiles.Twin(pingpong_store, tiles.options, grid=persistent_tiles, tile_each=True)
