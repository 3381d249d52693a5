"""The fastest of this ladder at any size: a tuned tile names the kernel; else the host chooses by what waves cost.

Builds on the kernels of SCHEDULES; it has no kernel of its own. General: any m, and any n and k that are multiples of
8. Where the tile names none, few rows go to small_m; otherwise the cost of a launch is that of its longest program.
square_waves takes whole tiles in a flattened loop. The others fill multiprocessors that its last wave leaves idle, and
pay for the end of each tile, where the ring of A and B is drained: tile_192 has tiles of 192 or 320 columns; stream_k
and split_k share tiles, and also pay for handing sums on.
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
from triton_kernels.gemm.hopper.tile_192 import twin as tile_192
from triton_kernels.gemm.hopper.tma_store_epilogue import twin as eights
from triton_kernels.gemm.specialization import (
    BLOCK_K,
    MULTIPROCESSORS,
    Choice,
    Twin,
    few_rows,
    shared_steps,
    splits,
    step,
    tiles,
)

SCHEDULES = {1: whole, 2: eights, 4: stream_k, 5: split_k, 6: small_m, 10: tile_192}
"""The kernels that a tile may name by its option `schedule`."""
STORE, DRAIN, HAND_ON = 6, 13, 24
"""Clocks for 128 elements of a tile: to write C, to drain the ring and fill it anew, to hand on a part of its sums."""


def _cost(twin: Twin, a: torch.Tensor, b: torch.Tensor, tile: Any) -> float:
    """Clocks of the longest program of a launch."""
    number, most = tiles(a, b, tile)[0], MULTIPROCESSORS
    steps, area = triton.cdiv(a.shape[1], BLOCK_K), tile.block_m * tile.block_n / 128
    end = (STORE + DRAIN) * area
    if twin is split_k:
        shared = splits(a, b, tile, most)
        handed_on = HAND_ON * shared * area if shared > 1 else 0
        own = triton.cdiv(steps, shared) * step(tile, "anew") + end + handed_on
        return triton.cdiv(number * shared, most) * own
    if twin is stream_k:
        streamed, sharers = shared_steps(a, b, tile, most)
        of_shares = streamed * steps / sharers * step(tile, "anew") + 4 * end + 3 * HAND_ON * area
        return of_shares + triton.cdiv(number - streamed, sharers) * (steps * step(tile, "anew") + end)
    if twin is tile_192:
        return triton.cdiv(number, most) * (steps * step(tile, "anew") + end)
    return triton.cdiv(number, most) * (steps * step(tile, "flattened") + STORE * area) + DRAIN * area


@cache
def _best(m: int, n: int, k: int, tile: Any) -> tuple[Twin, Any]:
    a, b = (torch.empty(rows, k, device="meta") for rows in (m, n))
    if few := few_rows(m, n):
        block_m, block_n = few
        return small_m, replace(tile, block_m=block_m, block_n=block_n, stages=6, warps=4)
    wide = replace(tile, block_m=128, block_n=256, stages=4, warps=8)
    square = replace(wide, block_n=128, stages=6, warps=4)
    low = replace(square, block_m=64)
    found = [
        (whole, wide),
        (whole, square),
        (tile_192, replace(wide, block_n=192, stages=5)),
        (tile_192, replace(wide, block_n=320, stages=3)),
        (split_k, wide),
        (split_k, square),
        (split_k, low),
        (stream_k, wide),
    ]
    return min(found, key=lambda one: _cost(one[0], a, b, one[1]))


def choose(a: torch.Tensor, b: torch.Tensor, tile: Any) -> tuple[Twin, Any]:
    """The kernel and the tile of it for a problem: those that the tile names, or by cost."""
    if named := dict(tile.extra).get("schedule"):
        return SCHEDULES[named], replace(tile, extra=tuple(one for one in tile.extra if one[0] != "schedule"))
    return _best(a.shape[0], b.shape[0], a.shape[1], tile)


twin = Choice(choose)
