"""A dedicated producer: one warp loads tiles ahead of everyone, and its registers go to the math.

Builds on mbarrier_ring; changes who loads and who holds registers. General: any m, and any n and k that are multiples
of 8. The roles are those of the CUDA twin: one or two consumer warpgroups, by tile.warps. Core Triton gives roles only
in one narrow form, always with two consumers.

A consumer waits for a tile, multiplies it, and arrives at the buffer's `empty`. The compiler adds a barrier of the
warpgroup before each arrival. The fence after the barriers' initialization shows it to TMA; TMA and wgmma use the same
proxy, so tiles need none.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from triton_kernels.attention import gluon_warpgroups as wg
from triton_kernels.gemm import gluon_tiles as tiles

GROUP_M = gl.constexpr(8)


@gluon.jit
def _produce(loads, GROUPS: gl.constexpr):
    """Loads every tile as soon as its buffer is empty."""
    a_desc, b_desc, a_smem, b_smem, full, empty, row, col, k_tiles = loads
    BLOCK_K: gl.constexpr = b_smem.shape[2]
    for j in range(k_tiles):
        stage = j % b_smem.shape[0]
        wg.wait_empty(empty, j)
        mbarrier.expect(full.index(stage), GROUPS * a_desc.block_type.nbytes + b_desc.block_type.nbytes)
        for group in gl.static_range(GROUPS):
            at = a_smem.index(stage * GROUPS + group)
            wg.load_async(a_desc, [row + group * a_smem.shape[1], j * BLOCK_K], full.index(stage), at)
        wg.load_async(b_desc, [col, j * BLOCK_K], full.index(stage), b_smem.index(stage))


@gluon.jit
def _consume(work, GROUPS: gl.constexpr, GROUP: gl.constexpr, EVEN: gl.constexpr, EPILOGUE: gl.constexpr):
    """Computes the rows of C of consumer warpgroup GROUP."""
    a_smem, b_smem, full, empty, c_ptr, c_stride, bias_ptr, row, col, m, n, k_tiles = work
    ROWS: gl.constexpr = a_smem.shape[1]
    BLOCK_N: gl.constexpr = b_smem.shape[1]
    sums = gl.zeros((ROWS, BLOCK_N), gl.float32, tiles.accumulator(BLOCK_N))
    for j in range(k_tiles):
        stage = j % b_smem.shape[0]
        wg.wait_full(full, j)

        # C += A B^T
        a, b = a_smem.index(stage * GROUPS + GROUP), b_smem.index(stage)
        sums = warpgroup_mma(a, b.permute((1, 0)), sums, is_async=True)
        sums = warpgroup_mma_wait(0, deps=[sums])
        wg.arrive(empty, j)

    # epilogue
    tiles.store(sums, c_ptr, c_stride, bias_ptr, row + GROUP * ROWS, col, m, n, EVEN, EPILOGUE)


@gluon.jit
def producer_consumer(
    a_desc, b_desc, bias_ptr, c_ptr, c_stride, m, n, k,
    BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr, BLOCK_K: gl.constexpr, STAGES: gl.constexpr, GROUPS: gl.constexpr,
    EVEN: gl.constexpr, EPILOGUE: gl.constexpr,
):  # fmt: skip
    row, col = tiles.grouped_tile(gl.program_id(0), m, n, BLOCK_M, BLOCK_N, GROUP_M)
    k_tiles = (k + BLOCK_K - 1) // BLOCK_K
    a_smem = gl.allocate_shared_memory(a_desc.dtype, [STAGES * GROUPS, BLOCK_M // GROUPS, BLOCK_K], a_desc.layout)
    b_smem = gl.allocate_shared_memory(b_desc.dtype, [STAGES, BLOCK_N, BLOCK_K], b_desc.layout)
    full = wg.barriers(STAGES, 1)
    empty = wg.barriers(STAGES, GROUPS)
    fence_async_shared()

    work = (a_smem, b_smem, full, empty, c_ptr, c_stride, bias_ptr, row, col, m, n, k_tiles)
    loads = (a_desc, b_desc, a_smem, b_smem, full, empty, row, col, k_tiles)
    # The registers of the launch, at most 65536, move from the producer to one or two consumer warpgroups.
    if GROUPS == 1:
        gl.warp_specialize([(_consume, (work, GROUPS, 0, EVEN, EPILOGUE)), (_produce, (loads, GROUPS))], [1], [24])
    else:
        gl.warp_specialize(
            [
                (_consume, (work, GROUPS, 0, EVEN, EPILOGUE)),
                (_consume, (work, GROUPS, 1, EVEN, EPILOGUE)),
                (_produce, (loads, GROUPS)),
            ],
            [4, 1],
            [240, 24],
        )


twin = tiles.Twin(producer_consumer, tiles.options)
