"""Few rows of C: operands change places, so that rows of B fill the 64 rows of wgmma.

Builds on split_k; changes the order of the operands: C^T = B A^T. General: any m, and any n and k that are multiples of
8. The columns of wgmma are the few rows of A, and it takes as few as 8. A consumer warpgroup has 64 columns of C and
all rows of the tile, and writes C from registers, transposed. Fences and waits are those of split_k.
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
from triton_kernels.gemm.specialization import split_tiles
from triton_kernels.gluon_names import block_barrier

GROUP_M = gl.constexpr(8)


@gluon.jit
def _produce(loads):
    """Loads every tile as soon as its buffer is empty."""
    a_desc, b_desc, a_smem, b_smem, full, empty, row, col, first, steps = loads
    BLOCK_K: gl.constexpr = b_smem.shape[2]
    for j in range(steps):
        stage = j % b_smem.shape[0]
        wg.wait_empty(empty, j)
        mbarrier.expect(full.index(stage), a_desc.block_type.nbytes + b_desc.block_type.nbytes)
        wg.load_async(a_desc, [row, (first + j) * BLOCK_K], full.index(stage), a_smem.index(stage))
        wg.load_async(b_desc, [col, (first + j) * BLOCK_K], full.index(stage), b_smem.index(stage))


@gluon.jit
def _consume(work, GROUPS: gl.constexpr, GROUP: gl.constexpr, EVEN: gl.constexpr, EPILOGUE: gl.constexpr):
    """Computes this program's part of the columns of C of warpgroup GROUP; whoever comes last adds all parts."""
    a_smem, b_smem, full, empty, out, number, split, splits, counter_ptr, part_ptr, steps = work
    c_ptr, c_stride, bias_ptr, row, col, m, n = out
    COLUMNS: gl.constexpr = b_smem.shape[1] // GROUPS
    BLOCK_M: gl.constexpr = a_smem.shape[1]
    layout: gl.constexpr = tiles.accumulator(BLOCK_M)
    sums = gl.zeros((COLUMNS, BLOCK_M), gl.float32, layout)
    for j in range(steps):
        stage = j % b_smem.shape[0]
        wg.wait_full(full, j)

        # C^T += B A^T
        a, b = a_smem.index(stage), b_smem.index(stage).slice(GROUP * COLUMNS, COLUMNS)
        sums = warpgroup_mma(b, a.permute((1, 0)), sums, is_async=True)
        sums = warpgroup_mma_wait(0, deps=[sums])
        wg.arrive(empty, j)

    # leave this part; whoever comes last adds all of them
    comes_last = splits == 1
    if not comes_last:
        place = number * GROUPS + GROUP
        rows = gl.arange(0, COLUMNS, gl.SliceLayout(1, layout))
        cols = gl.arange(0, BLOCK_M, gl.SliceLayout(0, layout))
        part_ptrs = part_ptr + place * splits * COLUMNS * BLOCK_M + rows[:, None] * BLOCK_M + cols[None, :]
        gl.store(part_ptrs + split * COLUMNS * BLOCK_M, sums)
        block_barrier()
        comes_last = gl.atomic_add(counter_ptr + place, 1, sem="acq_rel") == splits - 1
        if comes_last:
            gl.store(counter_ptr + place, 0)
            sums = gl.zeros((COLUMNS, BLOCK_M), gl.float32, layout)
            for other in range(splits):
                sums += gl.load(part_ptrs + other * COLUMNS * BLOCK_M, cache_modifier=".cg")
    if comes_last:
        c = sums.permute((1, 0))
        tiles.store(c, c_ptr, c_stride, bias_ptr, row, col + GROUP * COLUMNS, m, n, EVEN, EPILOGUE)


@gluon.jit(do_not_specialize=["splits"])
def small_m(
    a_desc, b_desc, bias_ptr, c_ptr, c_stride, m, n, k, splits, counter_ptr, part_ptr,
    BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr, BLOCK_K: gl.constexpr, STAGES: gl.constexpr, GROUPS: gl.constexpr,
    EVEN: gl.constexpr, EPILOGUE: gl.constexpr,
):  # fmt: skip
    number = gl.program_id(0) // splits
    split = gl.program_id(0) % splits
    row, col = tiles.grouped_tile(number, m, n, BLOCK_M, BLOCK_N, GROUP_M)
    k_tiles = (k + BLOCK_K - 1) // BLOCK_K
    first = split * k_tiles // splits
    steps = (split + 1) * k_tiles // splits - first
    a_smem = gl.allocate_shared_memory(a_desc.dtype, [STAGES, BLOCK_M, BLOCK_K], a_desc.layout)
    b_smem = gl.allocate_shared_memory(b_desc.dtype, [STAGES, BLOCK_N, BLOCK_K], b_desc.layout)
    full = wg.barriers(STAGES, 1)
    empty = wg.barriers(STAGES, GROUPS)
    fence_async_shared()

    out = (c_ptr, c_stride, bias_ptr, row, col, m, n)
    work = (a_smem, b_smem, full, empty, out, number, split, splits, counter_ptr, part_ptr, steps)
    loads = (a_desc, b_desc, a_smem, b_smem, full, empty, row, col, first, steps)
    # The registers of the launch, at most 65536, move from the producer to one or two consumer warpgroups.
    if GROUPS == 1:
        gl.warp_specialize([(_consume, (work, GROUPS, 0, EVEN, EPILOGUE)), (_produce, (loads,))], [1], [24])
    else:
        gl.warp_specialize(
            [
                (_consume, (work, GROUPS, 0, EVEN, EPILOGUE)),
                (_consume, (work, GROUPS, 1, EVEN, EPILOGUE)),
                (_produce, (loads,)),
            ],
            [4, 1],
            [240, 24],
        )


twin = tiles.Twin(small_m, tiles.options, grid=split_tiles, tile_each=True)
