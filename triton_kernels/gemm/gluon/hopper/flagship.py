"""The fastest of this ladder at any size: a tuned tile names the kernel; else the host chooses by what waves cost.

Builds on the kernels of SCHEDULES; it has no kernel of its own. General: any m, and any n and k that are multiples of
8. Where the tile names none, few rows go to small_m; otherwise the cost of a launch is that of its longest program.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import torch
import triton

from triton_kernels.gemm.gluon.hopper.pingpong import twin as pingpong
from triton_kernels.gemm.gluon.hopper.small_m import twin as small_m
from triton_kernels.gemm.gluon.hopper.split_k import twin as split_k
from triton_kernels.gemm.gluon.hopper.square_waves import twin as whole
from triton_kernels.gemm.gluon.hopper.stream_k import twin as stream_k
from triton_kernels.gemm.gluon.hopper.tile_192 import twin as tile_192
from triton_kernels.gemm.gluon.hopper.tma_store_epilogue import twin as eights
from triton_kernels.gemm.gluon.hopper.trailing_store import twin as trailing_store
from triton_kernels.gemm.gluon_pingpong import twin as pingpong_store
from triton_kernels.gemm.gluon_pingpong_192 import twin as pingpong_192
from triton_kernels.gemm.specialization import BLOCK_K, MULTIPROCESSORS, Choice, Twin, few_rows, splits, step, tiles

SCHEDULES = {
    1: whole,
    2: eights,
    4: stream_k,
    5: split_k,
    6: small_m,
    7: pingpong,
    9: trailing_store,
    10: tile_192,
    11: pingpong_store,
    12: pingpong_192,
}
"""The kernels that a tile may name by its option `schedule`."""
STORE, DRAIN, HAND_ON = 6, 13, 24
"""Clocks for 128 elements of a tile: to write C, to begin and to end a program, to hand on one part of its sums."""


def _cost(twin: Twin, a: torch.Tensor, b: torch.Tensor, tile: Any) -> float:
    """Clocks of the longest program of a launch."""
    number, most = tiles(a, b, tile)[0], MULTIPROCESSORS
    steps, area = triton.cdiv(a.shape[1], BLOCK_K), tile.block_m * tile.block_n / 128
    if twin is split_k:
        shared = splits(a, b, tile, most)
        own = triton.cdiv(steps, shared) * step(tile, "anew") + (STORE + DRAIN + HAND_ON * shared) * area
        return triton.cdiv(number * shared, most) * own
    return triton.cdiv(number, most) * (steps * step(tile, "flattened") + STORE * area) + DRAIN * area


@cache
def _best(m: int, n: int, k: int, tile: Any) -> tuple[Twin, Any]:
    a, b = (torch.empty(rows, k, device="meta") for rows in (m, n))
    if few := few_rows(m, n):
        block_m, block_n = few
        return small_m, replace(tile, block_m=block_m, block_n=block_n, stages=8, warps=block_n // 16)
    wide = replace(tile, block_m=128, block_n=256, stages=4, warps=8)
    square = replace(wide, block_n=128, stages=6)
    low = replace(square, block_m=64, warps=4)
    found = [
        (whole, wide),
        (whole, square),
        (whole, low),
        (tile_192, replace(wide, block_n=192, stages=5)),
        (tile_192, replace(wide, block_n=320, stages=3)),
        (split_k, wide),
        (split_k, square),
    ]
    return min(found, key=lambda one: _cost(one[0], a, b, one[1]))


def choose(a: torch.Tensor, b: torch.Tensor, tile: Any) -> tuple[Twin, Any]:
    """The kernel and the tile of it for a problem: those that the tile names, or by cost."""
    if named := dict(tile.extra).get("schedule"):
        return SCHEDULES[named], replace(tile, extra=tuple(one for one in tile.extra if one[0] != "schedule"))
    return _best(a.shape[0], b.shape[0], a.shape[1], tile)


twin = Choice(choose)
