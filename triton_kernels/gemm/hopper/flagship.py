"""The fastest of this ladder at any size: the host chooses kernel and tile by what waves cost.

Builds on square_waves, stream_k and small_m; it has no kernel of its own. General: any m, and any n and k that
are multiples of 8. Few rows go to small_m. Otherwise the cost of a launch is that of its longest program: whole tiles
by square_waves, whose loop is flattened; shared steps by stream_k and split_k, which fill multiprocessors that
whole tiles leave idle, and pay for each tile's end, where the ring of A and B is drained, and for handing sums on.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import torch
import triton

from triton_kernels.gemm.hopper.small_m import twin as small_m
from triton_kernels.gemm.hopper.split_k import twin as split_k
from triton_kernels.gemm.hopper.square_waves import twin as whole
from triton_kernels.gemm.hopper.stream_k import twin as stream_k
from triton_kernels.gemm.specialization import (
    BLOCK_K,
    Choice,
    Twin,
    multiprocessors,
    shared_steps,
    splits,
    tiles,
)

FEW_ROWS = (16, 32, 64)
L2_BYTES = 46
"""That a multiprocessor gets in a clock."""
STORE, DRAIN, HAND_ON = 8, 6, 24
"""Clocks for 128 elements of a tile: to write C, to drain the ring and fill it anew, to hand sums on (predictions)."""


def _step(tile: Any) -> float:
    """Clocks of a step: of the tensor cores, or of what they wait for."""
    products = tile.block_m * tile.block_n * BLOCK_K / 2048
    return max(products, (tile.block_m + tile.block_n) * 2 * BLOCK_K / L2_BYTES)


def _cost(twin: Twin, a: torch.Tensor, b: torch.Tensor, tile: Any) -> float:
    """Clocks of the longest program of a launch."""
    number, most = tiles(a, b, tile)[0], multiprocessors(a.device)
    step, steps = _step(tile), triton.cdiv(a.shape[1], BLOCK_K)
    store, drain, hand_on = (clocks * tile.block_m * tile.block_n // 128 for clocks in (STORE, DRAIN, HAND_ON))
    if twin is split_k:
        shared = splits(a, b, tile)
        return triton.cdiv(number * shared, most) * (triton.cdiv(steps, shared) * step + drain + store) + hand_on
    if twin is stream_k:
        streamed, sharers = shared_steps(a, b, tile)
        rest = triton.cdiv(number - streamed, sharers) * (steps * step + drain + store)
        return streamed * steps / sharers * step + 2 * (drain + store) + hand_on + rest
    return triton.cdiv(number, most) * (steps * step + store)


@cache
def _best(m: int, n: int, k: int, tile: Any) -> tuple[Twin, Any]:
    a, b = (torch.empty(rows, k, device="meta") for rows in (m, n))
    wide, tall, square = (
        replace(tile, block_m=block_m, block_n=block_n, stages=4, warps=8)
        for block_m, block_n in ((128, 256), (256, 128), (128, 128))
    )
    if few := next((rows for rows in FEW_ROWS if m <= rows), None):
        return small_m, replace(square, block_m=few, stages=8)
    found = [(twin, one) for one in (wide, tall, square) for twin in (whole, split_k, stream_k)]
    return min(found, key=lambda one: _cost(one[0], a, b, one[1]))


def choose(a: torch.Tensor, b: torch.Tensor, tile: Any) -> tuple[Twin, Any]:
    """The kernel and the tile of it for a problem."""
    return _best(a.shape[0], b.shape[0], a.shape[1], tile)


twin = Choice(choose)
