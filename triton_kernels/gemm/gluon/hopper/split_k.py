"""Programs share a tile of C: each has a part of k, and adds up a share of the columns once all have their sums.

Builds on producer_consumer; changes the loop's bounds and the epilogue, where C leaves by TMA as in tma_store_epilogue.
General: any m, and any n and k that are multiples of 8.

As in core Triton sums pass through the workspace: Gluon of Triton 3.6 cannot access the shared memory of another
program. A consumer warpgroup leaves its rows there, counts itself, and waits until those of all parts have; the barrier
of its warps comes before the count, because one thread counts for all. Then it adds the parts of its share of the boxes
of C, in the order of k, so that results are repeatable. Whoever counts last after that leaves the counter at zero. All
programs run at the same time, no more than one per multiprocessor, so that waiting ends.
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
from triton_kernels.gemm.specialization import split_tiles
from triton_kernels.gluon_names import block_barrier

GROUP_M = gl.constexpr(8)


@gluon.jit
def _places(ROWS: gl.constexpr, COLUMNS: gl.constexpr, BLOCK_N: gl.constexpr):
    """Where the first COLUMNS columns of a warpgroup's rows lie in what it leaves."""
    layout: gl.constexpr = tiles.accumulator(COLUMNS)
    rows = gl.arange(0, ROWS, gl.SliceLayout(1, layout))
    cols = gl.arange(0, COLUMNS, gl.SliceLayout(0, layout))
    return rows[:, None] * BLOCK_N + cols[None, :]


@gluon.jit
def _produce(loads, GROUPS: gl.constexpr):
    """Loads every tile as soon as its buffer is empty."""
    a_desc, b_desc, a_smem, b_smem, full, empty, row, col, first, steps = loads
    BLOCK_K: gl.constexpr = b_smem.shape[2]
    for j in range(steps):
        stage = j % b_smem.shape[0]
        wg.wait_empty(empty, j)
        mbarrier.expect(full.index(stage), GROUPS * a_desc.block_type.nbytes + b_desc.block_type.nbytes)
        for group in gl.static_range(GROUPS):
            at = a_smem.index(stage * GROUPS + group)
            wg.load_async(a_desc, [row + group * a_smem.shape[1], (first + j) * BLOCK_K], full.index(stage), at)
        wg.load_async(b_desc, [col, (first + j) * BLOCK_K], full.index(stage), b_smem.index(stage))


@gluon.jit
def _consume(work, c_smem, GROUPS: gl.constexpr, GROUP: gl.constexpr, EPILOGUE: gl.constexpr):
    """Computes this program's part of the rows of C of consumer warpgroup GROUP, and a share of their sums."""
    a_smem, b_smem, full, empty, out, number, split, splits, counter_ptr, part_ptr, steps = work
    c_desc, bias_ptr, row, col, n = out
    ROWS: gl.constexpr = a_smem.shape[1]
    BLOCK_N: gl.constexpr = b_smem.shape[1]
    layout: gl.constexpr = tiles.accumulator(BLOCK_N)
    sums = gl.zeros((ROWS, BLOCK_N), gl.float32, layout)
    for j in range(steps):
        stage = j % b_smem.shape[0]
        wg.wait_full(full, j)

        # C += A B^T
        a, b = a_smem.index(stage * GROUPS + GROUP), b_smem.index(stage)
        sums = warpgroup_mma(a, b.permute((1, 0)), sums, is_async=True)
        sums = warpgroup_mma_wait(0, deps=[sums])
        wg.arrive(empty, j)

    if splits == 1:
        sums = tiles.finish(sums, bias_ptr, col, n, EPILOGUE)
        tiles.store_parts(sums, c_desc, c_smem, row + GROUP * ROWS, col, 0)
    else:  # leave this part, wait for the others, and add up a share
        count_ptr = counter_ptr + number * GROUPS + GROUP
        part_ptr += (number * GROUPS + GROUP) * splits * ROWS * BLOCK_N
        gl.store(part_ptr + split * ROWS * BLOCK_N + _places(ROWS, BLOCK_N, BLOCK_N), sums)
        block_barrier()
        arrived = gl.atomic_add(count_ptr, 1, sem="acq_rel") + 1
        while arrived < splits:
            arrived = gl.atomic_add(count_ptr, 0, sem="acq_rel")
        COLUMNS: gl.constexpr = c_desc.block_type.shape[1]
        places = _places(ROWS, COLUMNS, BLOCK_N)
        for box in range(split, BLOCK_N // COLUMNS, splits):
            share = gl.zeros((ROWS, COLUMNS), gl.float32, tiles.accumulator(COLUMNS))
            for other in range(splits):
                theirs = part_ptr + other * ROWS * BLOCK_N + box * COLUMNS
                share += gl.load(theirs + places, cache_modifier=".cg")
            share = tiles.finish(share, bias_ptr, col + box * COLUMNS, n, EPILOGUE)
            tma.store_wait(0)  # every box goes to the first buffer
            tiles.store_parts(share, c_desc, c_smem, row + GROUP * ROWS, col + box * COLUMNS, 0)
        if gl.atomic_add(count_ptr, 1, sem="relaxed") == 2 * splits - 1:
            gl.store(count_ptr, 0)
    tma.store_wait(0)


@gluon.jit(do_not_specialize=["splits"])
def split_k(
    a_desc, b_desc, c_desc, bias_ptr, m, n, k, splits, counter_ptr, part_ptr,
    BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr, BLOCK_K: gl.constexpr, STAGES: gl.constexpr, GROUPS: gl.constexpr,
    C_BUFFERS: gl.constexpr, EPILOGUE: gl.constexpr,
):  # fmt: skip
    number = gl.program_id(0) // splits
    split = gl.program_id(0) % splits
    row, col = tiles.grouped_tile(number, m, n, BLOCK_M, BLOCK_N, GROUP_M)
    k_tiles = (k + BLOCK_K - 1) // BLOCK_K
    first = split * k_tiles // splits
    steps = (split + 1) * k_tiles // splits - first
    a_smem = gl.allocate_shared_memory(a_desc.dtype, [STAGES * GROUPS, BLOCK_M // GROUPS, BLOCK_K], a_desc.layout)
    b_smem = gl.allocate_shared_memory(b_desc.dtype, [STAGES, BLOCK_N, BLOCK_K], b_desc.layout)
    full = wg.barriers(STAGES, 1)
    empty = wg.barriers(STAGES, GROUPS)
    fence_async_shared()

    out = (c_desc, bias_ptr, row, col, n)
    work = (a_smem, b_smem, full, empty, out, number, split, splits, counter_ptr, part_ptr, steps)
    loads = (a_desc, b_desc, a_smem, b_smem, full, empty, row, col, first, steps)
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


twin = tiles.Twin(split_k, tiles.options, grid=split_tiles)
