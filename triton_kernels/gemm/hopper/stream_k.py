"""Stream-K: programs share the steps of some tiles evenly, where whole tiles would leave the last wave empty.

Builds on tma_store_epilogue; changes the loop over tiles. General: any m, and any n and k that are multiples of 8.

A share begins and ends anywhere in a tile. The program that has the last step of a tile finishes it: it adds what those
before it have left in the workspace, in their order, which makes results repeatable. The barrier comes before the flag
because one thread sets it for all. A program takes its share from its end to its beginning: what another one waits for
is done first, and the waiting last. All programs run at the same time, one per multiprocessor, and one waits only for
programs of lower numbers, so that waiting ends.

A tile ends in one of two ways, and the compiler flattens no loop with such an end, whatever the source asks: the ring
of A and B is drained after each tile.
"""

import triton
import triton.language as tl

from triton_kernels.gemm.epilogue import finish, grouped_tile, halves
from triton_kernels.gemm.specialization import Twin, sharing_programs

GROUP_M = tl.constexpr(8)


@triton.jit
def _share(program, streamed, sharers, k_tiles):
    """The first of the shared steps that a program has."""
    return (streamed.to(tl.int64) * k_tiles * program // sharers).to(tl.int32)


@triton.jit
def _leave(sums, part_ptr, col, BLOCK_N: tl.constexpr, PART_N: tl.constexpr):
    """Writes sums of a tile, whose first column in the tile is `col`, to the workspace, PART_N columns at a time."""
    if sums.shape[1] == PART_N:
        tl.store(part_ptr + _places(sums.shape[0], PART_N, BLOCK_N) + col, sums)
    else:
        left, right = halves(sums)
        _leave(left, part_ptr, col, BLOCK_N, PART_N)
        _leave(right, part_ptr, col + left.shape[1], BLOCK_N, PART_N)


@triton.jit
def _complete(
    sums, part_ptr, program, others, c_desc, bias_ptr, row, tile_col, col, n,
    BLOCK_N: tl.constexpr, EPILOGUE: tl.constexpr,
):  # fmt: skip
    """Adds to sums of a tile what so many programs before this one have left of it, and writes them to C."""
    PART_N: tl.constexpr = c_desc.block_shape[1]
    if sums.shape[1] == PART_N:
        places = _places(sums.shape[0], PART_N, BLOCK_N) + col
        for number in range(1, others + 1):
            theirs = part_ptr + (program - number) * sums.shape[0] * BLOCK_N
            sums += tl.load(theirs + places, cache_modifier=".cg")
        sums = finish(sums, bias_ptr, tile_col + col, n, PART_N, EPILOGUE)
        c_desc.store([row, tile_col + col], sums.to(c_desc.dtype))
    else:
        left, right = halves(sums)
        _complete(left, part_ptr, program, others, c_desc, bias_ptr, row, tile_col, col, n, BLOCK_N, EPILOGUE)
        col += left.shape[1]
        _complete(right, part_ptr, program, others, c_desc, bias_ptr, row, tile_col, col, n, BLOCK_N, EPILOGUE)


@triton.jit
def _places(ROWS: tl.constexpr, COLUMNS: tl.constexpr, BLOCK_N: tl.constexpr):
    """Where the first COLUMNS columns of a tile lie in what a program leaves."""
    return tl.arange(0, ROWS)[:, None] * BLOCK_N + tl.arange(0, COLUMNS)[None, :]


@triton.jit(do_not_specialize=["streamed", "sharers"])
def stream_k(
    a_desc, b_desc, c_desc, bias_ptr, m, n, k, streamed, sharers, counter_ptr, part_ptr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, EPILOGUE: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    tiles = tl.cdiv(m, BLOCK_M) * tl.cdiv(n, BLOCK_N)
    k_tiles = tl.cdiv(k, BLOCK_K)
    begin = _share(program, streamed, sharers, k_tiles)
    end = _share(program + 1, streamed, sharers, k_tiles)
    last_tile = (end - 1) // k_tiles
    shared = tl.where(begin < end, last_tile - begin // k_tiles + 1, 0)
    whole = tl.cdiv(tl.maximum(tiles - streamed - program, 0), tl.num_programs(0))
    for run in range(shared + whole):
        number = tl.where(run < shared, last_tile - run, streamed + program + (run - shared) * tl.num_programs(0))
        first = tl.where(run < shared, tl.maximum(begin - number * k_tiles, 0), 0)
        last = tl.where(run < shared, tl.minimum(end - number * k_tiles, k_tiles), k_tiles)
        row, col = grouped_tile(number, m, n, BLOCK_M, BLOCK_N, GROUP_M)
        sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for step in range(first, last):
            a = a_desc.load([row, step * BLOCK_K])
            b = b_desc.load([col, step * BLOCK_K])
            sums = tl.dot(a, b.T, sums)

        if last < k_tiles:  # another program finishes the tile
            _leave(sums, part_ptr + program * BLOCK_M * BLOCK_N, 0, BLOCK_N, c_desc.block_shape[1])
            tl.debug_barrier()
            tl.atomic_xchg(counter_ptr + program, 1, sem="release")
        else:
            others = 0
            while first > 0:  # steps before this program's
                others += 1
                other = program - others
                while tl.atomic_cas(counter_ptr + other, 1, 0, sem="acquire") != 1:
                    pass
                first -= _share(other + 1, streamed, sharers, k_tiles) - _share(other, streamed, sharers, k_tiles)
            _complete(sums, part_ptr, program, others, c_desc, bias_ptr, row, col, 0, n, BLOCK_N, EPILOGUE)


twin = Twin(stream_k, grid=sharing_programs)
