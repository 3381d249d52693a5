"""Groups: one launch multiplies the rows of each by a B of its own, as in a layer of experts.

Builds on square_waves; changes which tile a program takes, and where a store ends. General: any m in a group, 0
too, and any n and k that are multiples of 8.

Each role walks the groups and takes every tile whose number is its program's turn. As in core Triton a ragged
descriptor cuts off what a tile has of the next group's rows. Fences and waits are those of square_waves.
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
from triton_kernels.gemm import gluon_groups as ragged
from triton_kernels.gemm import gluon_tiles as tiles
from triton_kernels.gemm.groups import programs

GROUP_ROWS = gl.constexpr(2048)


@gluon.jit
def _produce(loads, GROUPS: gl.constexpr):
    """Loads every tile as soon as its buffer is empty."""
    a_desc, b_desc, a_smem, b_smem, full, empty, offsets_ptr, groups, m, n, k_tiles = loads
    BLOCK_M: gl.constexpr = GROUPS * a_smem.shape[1]
    BLOCK_N: gl.constexpr = b_smem.shape[2]
    BLOCK_K: gl.constexpr = b_smem.shape[3]
    step = 0
    number = gl.program_id(0)
    begin, last = 0, 0
    for expert in range(groups):
        first = last
        end = ragged.end(offsets_ptr, expert, m)
        last += tiles.count(end - begin, n, BLOCK_M, BLOCK_N)
        while number < last:
            row, col = tiles.grouped_tile(number - first, end - begin, n, BLOCK_M, BLOCK_N, GROUP_ROWS // BLOCK_M)
            for j in range(k_tiles):
                stage = step % b_smem.shape[0]
                wg.wait_empty(empty, step)
                mbarrier.expect(full.index(stage), GROUPS * a_desc.block_type.nbytes + b_desc.block_type.nbytes)
                for group in gl.static_range(GROUPS):
                    at = a_smem.index(stage * GROUPS + group)
                    wg.load_async(a_desc, [begin + row + group * a_smem.shape[1], j * BLOCK_K], full.index(stage), at)
                wg.load_async(b_desc, [expert, col, j * BLOCK_K], full.index(stage), b_smem.index(stage))
                step += 1
            number += gl.num_programs(0)
        begin = end


@gluon.jit
def _consume(work, c_smem, GROUPS: gl.constexpr, GROUP: gl.constexpr, EPILOGUE: gl.constexpr):
    """Computes the rows of C of consumer warpgroup GROUP, tile after tile."""
    a_smem, b_smem, full, empty, c_desc, bias_ptr, offsets_ptr, groups, m, n, k_tiles = work
    ROWS: gl.constexpr = a_smem.shape[1]
    BLOCK_N: gl.constexpr = b_smem.shape[2]
    BLOCK_K: gl.constexpr = b_smem.shape[3]
    BLOCK_M: gl.constexpr = GROUPS * ROWS
    step = 0
    number = gl.program_id(0)
    begin, last = 0, 0
    for expert in range(groups):
        first = last
        end = ragged.end(offsets_ptr, expert, m)
        last += tiles.count(end - begin, n, BLOCK_M, BLOCK_N)
        while number < last:
            row, col = tiles.grouped_tile(number - first, end - begin, n, BLOCK_M, BLOCK_N, GROUP_ROWS // BLOCK_M)
            sums = gl.zeros((ROWS, BLOCK_N), gl.float32, tiles.accumulator(BLOCK_N))
            for _ in range(k_tiles):
                stage = step % b_smem.shape[0]
                wg.wait_full(full, step)

                # C += A B^T
                a, b = a_smem.index(stage * GROUPS + GROUP), b_smem.index(stage).reshape((BLOCK_N, BLOCK_K))
                sums = warpgroup_mma(a, b.permute((1, 0)), sums, is_async=True)
                sums = warpgroup_mma_wait(0, deps=[sums])
                wg.arrive(empty, step)
                step += 1

            # epilogue
            sums = tiles.finish(sums, bias_ptr, col, n, EPILOGUE)
            ragged.store_parts(sums, c_desc, c_smem, begin, end - begin, row + GROUP * ROWS, col, 0)
            number += gl.num_programs(0)
        begin = end
    tma.store_wait(0)


@gluon.jit
def grouped(
    a_desc, b_desc, c_desc, bias_ptr, offsets_ptr, groups, m, n, k,
    BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr, BLOCK_K: gl.constexpr, STAGES: gl.constexpr, GROUPS: gl.constexpr,
    C_BUFFERS: gl.constexpr, EPILOGUE: gl.constexpr,
):  # fmt: skip
    k_tiles = (k + BLOCK_K - 1) // BLOCK_K
    a_smem = gl.allocate_shared_memory(a_desc.dtype, [STAGES * GROUPS, BLOCK_M // GROUPS, BLOCK_K], a_desc.layout)
    b_smem = gl.allocate_shared_memory(b_desc.dtype, [STAGES, 1, BLOCK_N, BLOCK_K], b_desc.layout)
    full = wg.barriers(STAGES, 1)
    empty = wg.barriers(STAGES, GROUPS)
    fence_async_shared()

    work = (a_smem, b_smem, full, empty, c_desc, bias_ptr, offsets_ptr, groups, m, n, k_tiles)
    loads = (a_desc, b_desc, a_smem, b_smem, full, empty, offsets_ptr, groups, m, n, k_tiles)
    first_c = ragged.buffers(c_desc, C_BUFFERS)
    # The registers of the launch, at most 65536, move from the producer to one or two consumer warpgroups.
    if GROUPS == 1:
        gl.warp_specialize([(_consume, (work, first_c, GROUPS, 0, EPILOGUE)), (_produce, (loads, GROUPS))], [1], [24])
    else:
        second_c = ragged.buffers(c_desc, C_BUFFERS)
        gl.warp_specialize(
            [
                (_consume, (work, first_c, GROUPS, 0, EPILOGUE)),
                (_consume, (work, second_c, GROUPS, 1, EPILOGUE)),
                (_produce, (loads, GROUPS)),
            ],
            [4, 1],
            [240, 24],
        )


twin = ragged.Twin(grouped, tiles.options, grid=programs)
