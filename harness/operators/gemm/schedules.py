"""The kernels that the flagship can run: a tuned tile names one by its option `schedule`, a number. What limits each,
which language has it, and the tiles that `tune` tries. Standard library only."""

from dataclasses import replace
from itertools import chain

from harness.catalog.entries import Limit, Tile
from harness.operators.gemm.arguments import block_k
from harness.operators.gemm.limits import (
    BOX_OF_C,
    COLUMNS_320,
    K_CONTIGUOUS,
    ONE_PRODUCT,
    PINGPONG,
    SMALL_M,
    STAGED,
    STORED_BY_TURNS,
    TWO_TENSORS,
    WARPGROUPS,
)

TWO_BY_TURNS = (
    ONE_PRODUCT,
    K_CONTIGUOUS,
    Limit(
        "gluon",
        "two warpgroups have a tile each, whose columns are in two tensors: warps must be 8, block_m 128, block_n 192, "
        "block_k 64, and stages 2 or more",
        lambda problem, tile: (
            (tile.warps, tile.block_m, tile.block_n, block_k(tile)) != (8, 128, 192, 64) or tile.stages < 2
        ),
    ),
    BOX_OF_C,
)
"""Of pingpong_192 (triton_kernels/gemm/gluon_pingpong_192.py)."""
SCHEDULES = {
    0: STAGED,
    1: STAGED,
    2: STAGED,
    3: STAGED,
    4: STAGED,
    5: WARPGROUPS,
    6: SMALL_M,
    7: PINGPONG,
    8: WARPGROUPS,
    9: STAGED,
    10: TWO_TENSORS,
    11: STORED_BY_TURNS,
    12: TWO_BY_TURNS,
    13: WARPGROUPS,
    14: STAGED,
    15: COLUMNS_320,
    16: STORED_BY_TURNS,
}
"""Number -> its limits. 0, which no tile names, is the host's choice."""
NAMES = {
    1: "square_waves",
    2: "tma_store_epilogue",
    3: "cluster_multicast",
    4: "stream_k",
    5: "split_k",
    6: "small_m",
    7: "pingpong",
    8: "producer_consumer",
    9: "trailing_store",
    10: "tile_192",
    11: "pingpong_store",
    12: "pingpong_192",
    13: "evict_first",
    14: "overlapped_index",
    15: "columns_320",
    16: "evict_c_first",
}
"""Number -> the kernel, as cuda_kernels/gemm/schedules.cuh and the flagships in triton_kernels have it. All but 12 are
rungs; Gluon's 11 is triton_kernels/gemm/gluon_pingpong.py."""
_TILES = {
    "cuda": {
        1: "128x256-s4-w8 128x256-s3-w8 128x192-s5-w8 128x128-s6-w8 128x128-s6-w4",
        2: "128x256-s4-w8 128x256-s4-w8-group_m16 128x256-s3-w8-group_m16 128x192-s5-w8-group_m16 128x128-s6-w8",
        3: "128x256-s4-w8 128x256-s3-w8 128x256-s4-w8-group_m4 128x192-s5-w8 128x192-s4-w8 128x128-s6-w8",
        4: "128x256-s4-w8 128x256-s3-w8 128x192-s5-w8 128x128-s6-w8",
        5: "128x256-s4-w8 128x192-s5-w8 128x128-s6-w8 128x128-s6-w4 64x256-s5-w4 64x128-s8-w4 128x64-s8-w8",
        6: "16x128-s10-w8 16x64-s10-w4 32x64-s10-w4 32x128-s10-w8 64x64-s10-w4 64x128-s8-w8 128x128-s6-w8",
        7: "128x128-s6-w8 128x128-s6-w8-group_m16 128x192-s5-w8 128x64-s8-w8",
        8: "128x128-s6-w8 128x64-s8-w8 64x128-s8-w4 64x256-s5-w4",
        9: "128x256-s4-w8 128x256-s3-w8 128x192-s5-w8",
        13: "64x128-s8-w4 64x128-s5-w4 128x64-s8-w8 128x128-s6-w8 128x256-s4-w8",
        14: "128x256-s4-w8 128x256-s3-w8 128x192-s5-w8",
        15: "128x320-s3-w8",
        16: "128x192-s4-w8 128x128-s6-w8",
    },
    "triton": {
        1: "128x256-s4-w8 128x256-s3-w8 256x128-s4-w8 128x128-s6-w4 64x256-s4-w4 64x128-s8-w4",
        2: "128x256-s4-w8 128x256-s3-w8 256x128-s4-w8 128x128-s6-w4",
        4: "128x256-s4-w8 128x256-s3-w8 256x128-s4-w8",
        5: "128x256-s4-w8 256x128-s4-w8 128x128-s6-w8 64x256-s4-w4 64x128-s8-w4 128x64-s8-w4 64x64-s10-w4",
        6: "16x64-s10-w4 16x128-s8-w4 32x64-s10-w4 32x128-s8-w8 64x64-s10-w4 64x128-s6-w4 64x128-s8-w8",
        10: "128x192-s5-w8 256x192-s3-w8 128x320-s3-w8",
    },
    "gluon": {
        1: "128x256-s4-w8 128x256-s3-w8 256x128-s4-w8 128x128-s6-w8 64x256-s4-w4 64x128-s8-w4 128x64-s8-w8",
        2: "128x256-s4-w8 128x256-s3-w8 256x128-s4-w8 128x128-s6-w8",
        4: "128x256-s4-w8 128x256-s3-w8 256x128-s4-w8",
        5: "128x256-s4-w8 256x128-s4-w8 128x128-s6-w8 64x128-s8-w4 128x64-s8-w8 64x64-s10-w4",
        6: "16x64-s10-w4 16x128-s8-w8 16x128-s10-w8 32x64-s10-w4 32x128-s8-w8 64x64-s10-w4 64x128-s8-w8",
        7: "128x128-s6-w8 128x64-s8-w8",
        9: "128x256-s4-w8 128x256-s3-w8 256x128-s4-w8",
        10: "128x192-s5-w8 128x192-s4-w8 256x192-s3-w8 128x320-s3-w8",
        11: "128x128-s6-w8 128x64-s8-w8",
        12: "128x192-s4-w8",
    },
}
"""Language -> number -> slugs of the tiles that `tune` tries."""
SCHEDULES_IN = {language: (0, *numbers) for language, numbers in _TILES.items()}
GRID = {
    language: tuple(
        replace(tile, extra=(*tile.extra, ("schedule", number)))
        for number, slugs in numbers.items()
        for tile in map(Tile.parse, slugs.split())
    )
    for language, numbers in _TILES.items()
}
"""Language -> the flagship's tiles, with their schedules."""


def schedule(tile: Tile) -> int:
    return dict(tile.extra).get("schedule", 0)


def named(tile: Tile) -> str | None:
    """The kernel of the tile's schedule; None where the host chooses."""
    return NAMES.get(schedule(tile))


def _of_schedules(limit: Limit) -> Limit:
    """The limit for those schedules alone that have it."""
    return replace(
        limit,
        applies=lambda problem, tile: limit in SCHEDULES.get(schedule(tile), ()) and limit.applies(problem, tile),
    )


def _named(language: str) -> Limit:
    known = SCHEDULES_IN[language]
    return Limit(
        "core_triton" if language == "triton" else language,
        f"schedule must be one of {', '.join(map(str, known))}",
        lambda problem, tile: schedule(tile) not in known,
    )


CHOOSES = (
    *map(_named, SCHEDULES_IN),
    *(_of_schedules(limit) for limit in dict.fromkeys(chain(*SCHEDULES.values()))),
    Limit(
        "cuda",
        "where the tile names no schedule it chooses its columns itself, of tiles with 128 rows for two warpgroups: "
        "block_m must be 128 and warps 8",
        lambda problem, tile: schedule(tile) == 0 and (tile.block_m != 128 or tile.warps != 8),
    ),
)
"""Of the flagship."""
