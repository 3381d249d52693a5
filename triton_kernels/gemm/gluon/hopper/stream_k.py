"""Stream-K: programs share the steps of some tiles evenly, where whole tiles would leave the last wave empty.

Builds on tma_store_epilogue; changes the loop over tiles. General: any m, and any n and k that are multiples of 8.

A share begins and ends anywhere in a tile. The program that has the last step of a tile finishes it: each warpgroup
adds what those before it have left of its rows in the workspace, in their order, which makes results repeatable. The
barrier of a warpgroup comes before its flag because one thread sets it for all. A program takes its share from its end
to its beginning: what another one waits for is done first, and the waiting last. All programs run at the same time, one
per multiprocessor, and one waits only for programs of lower numbers, so that waiting ends. Unlike in core Triton the
ring of A and B goes on from run to run: the producer loads the next one while sums are handed on.
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
from triton_kernels.gemm.specialization import sharing_programs
from triton_kernels.gluon_names import block_barrier

GROUP_M = gl.constexpr(8)


@gluon.jit
def _share(program, work):
    """The first of the shared steps that a program has."""
    _, streamed, sharers, k_tiles = work
    return (streamed.to(gl.int64) * k_tiles * program // sharers).to(gl.int32)


@gluon.jit
def _runs(work):
    """How many runs of steps this program has: of shared tiles, and whole tiles."""
    count, streamed, _, k_tiles = work
    begin, end = _share(gl.program_id(0), work), _share(gl.program_id(0) + 1, work)
    shared = gl.where(begin < end, (end - 1) // k_tiles - begin // k_tiles + 1, 0)
    rest = gl.maximum(count - streamed - gl.program_id(0), 0)
    return shared, (rest + gl.num_programs(0) - 1) // gl.num_programs(0)


@gluon.jit
def _take(run, shared, work):
    """The tile of a run, its first step, and the step behind its last."""
    _, streamed, _, k_tiles = work
    begin, end = _share(gl.program_id(0), work), _share(gl.program_id(0) + 1, work)
    number = (end - 1) // k_tiles - run
    first, last = gl.maximum(begin - number * k_tiles, 0), gl.minimum(end - number * k_tiles, k_tiles)
    if run >= shared:
        number = streamed + gl.program_id(0) + (run - shared) * gl.num_programs(0)
        first, last = 0, k_tiles
    return number, first, last


@gluon.jit
def _produce(loads, GROUPS: gl.constexpr):
    """Loads every tile as soon as its buffer is empty."""
    a_desc, b_desc, a_smem, b_smem, full, empty, m, n, work = loads
    BLOCK_M: gl.constexpr = GROUPS * a_smem.shape[1]
    BLOCK_N: gl.constexpr = b_smem.shape[1]
    BLOCK_K: gl.constexpr = b_smem.shape[2]
    step = 0
    shared, whole = _runs(work)
    for run in range(shared + whole):
        number, first, last = _take(run, shared, work)
        row, col = tiles.grouped_tile(number, m, n, BLOCK_M, BLOCK_N, GROUP_M)
        for j in range(first, last):
            stage = step % b_smem.shape[0]
            wg.wait_empty(empty, step)
            mbarrier.expect(full.index(stage), GROUPS * a_desc.block_type.nbytes + b_desc.block_type.nbytes)
            for group in gl.static_range(GROUPS):
                at = a_smem.index(stage * GROUPS + group)
                wg.load_async(a_desc, [row + group * a_smem.shape[1], j * BLOCK_K], full.index(stage), at)
            wg.load_async(b_desc, [col, j * BLOCK_K], full.index(stage), b_smem.index(stage))
            step += 1


@gluon.jit
def _places(sums, BLOCK_N: gl.constexpr):
    """Where sums, of some columns of a warpgroup's rows, lie in what it leaves."""
    layout: gl.constexpr = sums.type.layout
    rows = gl.arange(0, sums.shape[0], gl.SliceLayout(1, layout))
    cols = gl.arange(0, sums.shape[1], gl.SliceLayout(0, layout))
    return rows[:, None] * BLOCK_N + cols[None, :]


@gluon.jit
def _complete(
    sums, part_ptr, others, out, c_smem,
    GROUPS: gl.constexpr, BLOCK_N: gl.constexpr, COLUMN: gl.constexpr, EPILOGUE: gl.constexpr,
):  # fmt: skip
    """Adds to sums, whose first column in the tile is COLUMN, what `others` warpgroups have left of them, the last one
    at `part_ptr`, and writes them to C, box by box: the parts of a tile would not fit the registers."""
    c_desc, bias_ptr, row, col, n = out
    ROWS: gl.constexpr = sums.shape[0]
    columns: gl.constexpr = sums.shape[1]
    if columns == c_desc.block_type.shape[1]:
        places = _places(sums, BLOCK_N) + COLUMN
        for other in range(others):
            sums += gl.load(part_ptr - other * GROUPS * ROWS * BLOCK_N + places, cache_modifier=".cg")
        sums = tiles.finish(sums, bias_ptr, col + COLUMN, n, EPILOGUE)
        tiles.store_parts(sums, c_desc, c_smem, row, col + COLUMN, COLUMN // columns)
    else:
        half: gl.constexpr = columns // 2
        left, right = gl.split(gl.permute(gl.reshape(sums, (ROWS, 2, half)), (0, 2, 1)))
        _complete(left, part_ptr, others, out, c_smem, GROUPS, BLOCK_N, COLUMN, EPILOGUE)
        _complete(right, part_ptr, others, out, c_smem, GROUPS, BLOCK_N, COLUMN + half, EPILOGUE)


@gluon.jit
def _consume(mine, c_smem, GROUPS: gl.constexpr, GROUP: gl.constexpr, EPILOGUE: gl.constexpr):
    """Computes the rows of C of consumer warpgroup GROUP, run after run."""
    a_smem, b_smem, full, empty, c_desc, bias_ptr, counter_ptr, part_ptr, m, n, work = mine
    k_tiles = work[3]
    ROWS: gl.constexpr = a_smem.shape[1]
    BLOCK_N: gl.constexpr = b_smem.shape[1]
    BLOCK_M: gl.constexpr = GROUPS * ROWS
    layout: gl.constexpr = tiles.accumulator(BLOCK_N)
    step = 0
    shared, whole = _runs(work)
    for run in range(shared + whole):
        number, first, last = _take(run, shared, work)
        row, col = tiles.grouped_tile(number, m, n, BLOCK_M, BLOCK_N, GROUP_M)
        sums = gl.zeros((ROWS, BLOCK_N), gl.float32, layout)
        for _ in range(first, last):
            stage = step % b_smem.shape[0]
            wg.wait_full(full, step)

            # C += A B^T
            a, b = a_smem.index(stage * GROUPS + GROUP), b_smem.index(stage)
            sums = warpgroup_mma(a, b.permute((1, 0)), sums, is_async=True)
            sums = warpgroup_mma_wait(0, deps=[sums])
            wg.arrive(empty, step)
            step += 1

        slot = gl.program_id(0) * GROUPS + GROUP
        if last < k_tiles:  # another program finishes the tile
            gl.store(part_ptr + slot * ROWS * BLOCK_N + _places(sums, BLOCK_N), sums)
            block_barrier()
            gl.atomic_xchg(counter_ptr + slot, 1, sem="release")
        else:
            others = 0
            while first > 0:  # steps before this program's
                others += 1
                while gl.atomic_cas(counter_ptr + slot - others * GROUPS, 1, 0, sem="acquire") != 1:
                    pass
                other = gl.program_id(0) - others
                first -= _share(other + 1, work) - _share(other, work)

            # epilogue
            if BLOCK_N // c_desc.block_type.shape[1] % c_smem.shape[0] != 0:
                tma.store_wait(0)  # the boxes of each tile begin with the first buffer
            out = (c_desc, bias_ptr, row + GROUP * ROWS, col, n)
            theirs = part_ptr + (slot - GROUPS) * ROWS * BLOCK_N
            _complete(sums, theirs, others, out, c_smem, GROUPS, BLOCK_N, 0, EPILOGUE)
    tma.store_wait(0)


@gluon.jit(do_not_specialize=["streamed", "sharers"])
def stream_k(
    a_desc, b_desc, c_desc, bias_ptr, m, n, k, streamed, sharers, counter_ptr, part_ptr,
    BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr, BLOCK_K: gl.constexpr, STAGES: gl.constexpr, GROUPS: gl.constexpr,
    C_BUFFERS: gl.constexpr, EPILOGUE: gl.constexpr,
):  # fmt: skip
    work = (tiles.count(m, n, BLOCK_M, BLOCK_N), streamed, sharers, (k + BLOCK_K - 1) // BLOCK_K)
    a_smem = gl.allocate_shared_memory(a_desc.dtype, [STAGES * GROUPS, BLOCK_M // GROUPS, BLOCK_K], a_desc.layout)
    b_smem = gl.allocate_shared_memory(b_desc.dtype, [STAGES, BLOCK_N, BLOCK_K], b_desc.layout)
    full = wg.barriers(STAGES, 1)
    empty = wg.barriers(STAGES, GROUPS)
    fence_async_shared()

    mine = (a_smem, b_smem, full, empty, c_desc, bias_ptr, counter_ptr, part_ptr, m, n, work)
    loads = (a_desc, b_desc, a_smem, b_smem, full, empty, m, n, work)
    first_c = tiles.buffers(c_desc, C_BUFFERS)
    # The registers of the launch, at most 65536, move from the producer to one or two consumer warpgroups.
    if GROUPS == 1:
        gl.warp_specialize([(_consume, (mine, first_c, GROUPS, 0, EPILOGUE)), (_produce, (loads, GROUPS))], [1], [24])
    else:
        second_c = tiles.buffers(c_desc, C_BUFFERS)
        gl.warp_specialize(
            [
                (_consume, (mine, first_c, GROUPS, 0, EPILOGUE)),
                (_consume, (mine, second_c, GROUPS, 1, EPILOGUE)),
                (_produce, (loads, GROUPS)),
            ],
            [4, 1],
            [240, 24],
        )


twin = tiles.Twin(stream_k, tiles.options, grid=sharing_programs)
