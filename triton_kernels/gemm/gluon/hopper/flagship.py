"""The fastest of this ladder at any size: the host chooses kernel and tile by what waves cost.

Builds on tma_store_epilogue, split_k and small_m. General: any m, and any n and k that are multiples of 8. Few rows go
to small_m, few tiles to split_k, all else to the kernel here, which has two things that no rung has: products stay in
flight, and consumers keep apart.

A consumer issues the products of a step before it waits for those of the step before, so that one warpgroup alone keeps
the tensor cores busy. The second consumer begins each tile a few steps after the first, and so ends it later: the
epilogue of each runs under the other one's products, though both have the same tile. The first has said `led` when it
is so far ahead. It cannot come to the same barrier again before the second has waited there, because the ring of A and
B lets it run ahead by STAGES steps at most.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import torch
import triton
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
from triton_kernels.gemm import specialization
from triton_kernels.gemm.gluon.hopper.small_m import twin as small_m
from triton_kernels.gemm.gluon.hopper.split_k import twin as split_k

GROUP_M = gl.constexpr(16)
"""Of 128 rows: the tiles of a wave cover a square, as in square_waves."""


@gluon.jit
def _produce(loads, GROUPS: gl.constexpr):
    """Loads every tile as soon as its buffer is empty."""
    a_desc, b_desc, a_smem, b_smem, full, empty, m, n, k_tiles = loads
    BLOCK_M: gl.constexpr = GROUPS * a_smem.shape[1]
    BLOCK_N: gl.constexpr = b_smem.shape[1]
    BLOCK_K: gl.constexpr = b_smem.shape[2]
    step = 0
    for number in range(gl.program_id(0), tiles.count(m, n, BLOCK_M, BLOCK_N), gl.num_programs(0)):
        row, col = tiles.grouped_tile(number, m, n, BLOCK_M, BLOCK_N, GROUP_M)
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
def _multiply(sums, operands, first, last, step, GROUPS: gl.constexpr, GROUP: gl.constexpr):
    """Adds steps first to last of a tile to the sums of a warpgroup; the products of the last one are in flight still.
    Releases what the step before has read."""
    a_smem, b_smem, full, empty = operands
    STAGES: gl.constexpr = b_smem.shape[0]
    for j in range(first, last):
        stage = step % STAGES
        wg.wait_full(full, step)

        # C += A B^T
        a, b = a_smem.index(stage * GROUPS + GROUP), b_smem.index(stage)
        sums = warpgroup_mma(a, b.permute((1, 0)), sums, is_async=True)
        sums = warpgroup_mma_wait(1, deps=[sums])
        mbarrier.arrive(empty.index((step + STAGES - 1) % STAGES), count=1, pred=j > 0)
        step += 1
    return sums, step


@gluon.jit
def _consume(work, c_smem, GROUPS: gl.constexpr, GROUP: gl.constexpr, EPILOGUE: gl.constexpr):
    """Computes the rows of C of consumer warpgroup GROUP, tile after tile."""
    a_smem, b_smem, full, empty, led, c_desc, bias_ptr, m, n, k_tiles = work
    operands = (a_smem, b_smem, full, empty)
    ROWS: gl.constexpr = a_smem.shape[1]
    BLOCK_N: gl.constexpr = b_smem.shape[1]
    BLOCK_M: gl.constexpr = GROUPS * ROWS
    LEAD: gl.constexpr = b_smem.shape[0] // 2
    step = 0
    for number in range(gl.program_id(0), tiles.count(m, n, BLOCK_M, BLOCK_N), gl.num_programs(0)):
        row, col = tiles.grouped_tile(number, m, n, BLOCK_M, BLOCK_N, GROUP_M)
        tile = number // gl.num_programs(0)  # of this program
        sums = gl.zeros((ROWS, BLOCK_N), gl.float32, tiles.accumulator(BLOCK_N))
        if GROUP == 0:
            ahead = gl.minimum(LEAD, k_tiles)
            sums, step = _multiply(sums, operands, 0, ahead, step, GROUPS, GROUP)
            wg.arrive(led, tile)
            sums, step = _multiply(sums, operands, ahead, k_tiles, step, GROUPS, GROUP)
        else:
            wg.wait_full(led, tile)
            sums, step = _multiply(sums, operands, 0, k_tiles, step, GROUPS, GROUP)
        sums = warpgroup_mma_wait(0, deps=[sums])
        wg.arrive(empty, step - 1)

        # epilogue
        sums = tiles.finish(sums, bias_ptr, col, n, EPILOGUE)
        tiles.store_parts(sums, c_desc, c_smem, row + GROUP * ROWS, col, 0)
    tma.store_wait(0)


@gluon.jit
def flagship(
    a_desc, b_desc, c_desc, bias_ptr, m, n, k,
    BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr, BLOCK_K: gl.constexpr, STAGES: gl.constexpr, GROUPS: gl.constexpr,
    C_BUFFERS: gl.constexpr, EPILOGUE: gl.constexpr,
):  # fmt: skip
    k_tiles = (k + BLOCK_K - 1) // BLOCK_K
    a_smem = gl.allocate_shared_memory(a_desc.dtype, [STAGES * GROUPS, BLOCK_M // GROUPS, BLOCK_K], a_desc.layout)
    b_smem = gl.allocate_shared_memory(b_desc.dtype, [STAGES, BLOCK_N, BLOCK_K], b_desc.layout)
    full = wg.barriers(STAGES, 1)
    empty = wg.barriers(STAGES, GROUPS)
    led = wg.barriers(STAGES, 1)
    fence_async_shared()

    work = (a_smem, b_smem, full, empty, led, c_desc, bias_ptr, m, n, k_tiles)
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


whole = tiles.Twin(flagship, tiles.options, grid=specialization.persistent_tiles)

FEW_ROWS = {16: 10, 32: 8, 64: 8}
"""Rows of a tile of small_m -> its stages."""
L2_BYTES = 46
"""That a multiprocessor gets in a clock."""
STORE, HAND_ON = 4, 24
"""Clocks for 128 elements of a tile: to write C, to hand sums on (predictions)."""


def _cost(twin: specialization.Twin, a: torch.Tensor, b: torch.Tensor, tile: Any) -> float:
    """Clocks of the longest program of a launch."""
    number, most = specialization.tiles(a, b, tile)[0], specialization.multiprocessors(a.device)
    block_k, elements = specialization.BLOCK_K, tile.block_m * tile.block_n
    step = max(elements * block_k / 2048, (tile.block_m + tile.block_n) * 2 * block_k / L2_BYTES)
    steps, store, hand_on = triton.cdiv(a.shape[1], block_k), STORE * elements / 128, HAND_ON * elements / 128
    if twin is split_k:
        shared = specialization.splits(a, b, tile)
        return triton.cdiv(number * shared, most) * (triton.cdiv(steps, shared) * step + store) + hand_on
    return triton.cdiv(number, most) * (steps * step + store)


@cache
def _best(m: int, n: int, k: int, tile: Any) -> tuple[specialization.Twin, Any]:
    a, b = (torch.empty(rows, k, device="meta") for rows in (m, n))
    wide = replace(tile, block_m=128, block_n=256, stages=4, warps=8)
    square = replace(wide, block_n=128, stages=6)
    if few := next((rows for rows in FEW_ROWS if m <= rows), None):
        return small_m, replace(square, block_m=few, stages=FEW_ROWS[few])
    found = [(twin, one) for one in (wide, square) for twin in (whole, split_k)]
    return min(found, key=lambda one: _cost(one[0], a, b, one[1]))


def choose(a: torch.Tensor, b: torch.Tensor, tile: Any) -> tuple[specialization.Twin, Any]:
    """The kernel and the tile of it for a problem."""
    return _best(a.shape[0], b.shape[0], a.shape[1], tile)


twin = specialization.Choice(choose)
