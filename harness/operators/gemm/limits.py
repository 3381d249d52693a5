"""Why a backend declines a cell: the limits that several techniques share. Standard library only."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

from harness.catalog.entries import Limit, Tile
from harness.operators.gemm.arguments import block_k
from harness.operators.gemm.problem import Problem

SHARED_MEMORY_BYTES = 227 * 1024
"""Bytes that a block can ask for on compute capability 9.0."""


def buffers(tile: Tile) -> int:
    """Bytes of the rings of A and B, 1024 for their barriers and where the buffer must start."""
    return 2 * tile.stages * (tile.block_m + tile.block_n) * block_k(tile) + 1024


WHOLE_TILES = Limit(
    "*",
    "m, n and k must be multiples of the tile (a rung marked general takes any)",
    lambda problem, tile: bool(problem.m % tile.block_m or problem.n % tile.block_n or problem.k % block_k(tile)),
)
ONE_PRODUCT = Limit(
    "*", "it multiplies by one B: a problem may have no groups", lambda problem, tile: problem.groups > 1
)
POWER_OF_TWO = Limit(
    "triton",
    "Triton's tensors have powers of two for sizes: block_m, block_n and block_k must be such",
    lambda problem, tile: any(size & size - 1 for size in (tile.block_m, tile.block_n, block_k(tile))),
)
ONE_STAGE = Limit("cuda", "A and B have one buffer each: stages must be 1", lambda problem, tile: tile.stages != 1)
RING = Limit(
    "cuda", "A and B have a ring of buffers each: stages must be 2 or more", lambda problem, tile: tile.stages < 2
)
ONE_ELEMENT = Limit(
    "cuda",
    "a thread has one element of C: block_m * block_n must be 32 * warps",
    lambda problem, tile: tile.block_m * tile.block_n != 32 * tile.warps,
)
EIGHT_BY_EIGHT = Limit(
    "cuda",
    "a thread has 8 x 8 elements of C: block_m * block_n must be 2048 * warps",
    lambda problem, tile: tile.block_m * tile.block_n != 2048 * tile.warps,
)
WARP_GRID = Limit(
    "cuda",
    "warps are two rows of at least two, each with whole fragments: warps must be even, 4 or more, block_m a multiple "
    "of 32 and block_n of 8 * warps",
    lambda problem, tile: bool(
        tile.warps % 2 or tile.warps < 4 or tile.block_m % 32 or tile.block_n % (8 * tile.warps)
    ),
)
ROW_OF_128_BYTES = Limit(
    "cuda",
    "a row of a tile has the 128 bytes of a swizzle: block_k must be 64",
    lambda problem, tile: block_k(tile) != 64,
)
SHARED_MEMORY = Limit(
    "cuda",
    f"the rings of A and B must fit the {SHARED_MEMORY_BYTES} bytes of shared memory of a block",
    lambda problem, tile: buffers(tile) > SHARED_MEMORY_BYTES,
)
WIDTHS = (64, 128, 192, 256)
WARPGROUP_TILES = Limit(
    "cuda",
    "one or two warpgroups multiply, each whole 64 rows by all columns, in the registers of a thread: warps must be 4 "
    f"or 8, block_m a multiple of 16 * warps, block_n one of {', '.join(map(str, WIDTHS))}, and block_m * block_n at "
    "most 4096 * warps",
    lambda problem, tile: (
        tile.warps not in (4, 8)
        or bool(tile.block_m % (16 * tile.warps))
        or tile.block_n not in WIDTHS
        or tile.block_m * tile.block_n > 4096 * tile.warps
    ),
)
PLAIN = (ONE_PRODUCT, WHOLE_TILES, POWER_OF_TWO)
MMA = (*PLAIN, WARP_GRID, ROW_OF_128_BYTES)
_OF_WARPGROUPS = (WARPGROUP_TILES, ROW_OF_128_BYTES, RING, SHARED_MEMORY)
WARPGROUPS = (
    ONE_PRODUCT,
    POWER_OF_TWO,
    *_OF_WARPGROUPS,
    *(Limit("gluon", one.reason, one.applies) for one in _OF_WARPGROUPS),
)
"""Of rungs that load by TMA, which take any m, and any n and k that are multiples of 8."""
_TILE_EACH = Limit(
    "cuda",
    "two warpgroups have a tile each, in the registers of their threads: warps must be 8, and block_m * block_n at "
    "most 2048 * warps",
    lambda problem, tile: tile.warps != 8 or tile.block_m * tile.block_n > 2048 * tile.warps,
)
PINGPONG = (*WARPGROUPS, _TILE_EACH, Limit("gluon", _TILE_EACH.reason, _TILE_EACH.applies))


def _leaves_no_room_for_c(problem: Problem, tile: Tile) -> bool:
    return buffers(tile) + tile.warps * 2048 > SHARED_MEMORY_BYTES


_C_BESIDE_RINGS = Limit(
    "cuda",
    "beside the rings of A and B each warp needs 2048 bytes of shared memory to stage C",
    _leaves_no_room_for_c,
)
STAGED = (*WARPGROUPS, _C_BESIDE_RINGS, Limit("gluon", _C_BESIDE_RINGS.reason, _leaves_no_room_for_c))
"""Of rungs that store C by TMA."""
GROUPS = tuple(limit for limit in STAGED if limit is not ONE_PRODUCT)
"""Of rungs that take groups too."""
PAIRS = tuple(
    Limit(
        f"gluon@{version}",
        "Gluon has multicast from 3.7 on, and a barrier that counts the arrivals of two blocks from 3.8 on: this needs "
        "a newer Triton",
        lambda problem, tile: True,
    )
    for version in ("3.6.0", "3.7.1")
)
"""Of rungs whose blocks share what they load."""
_FEW_ROWS = Limit(
    "cuda",
    "a warpgroup has 64 columns of C and all rows of the tile: block_n must be 16 * warps, block_m 16, 32, 64 or 128, "
    "and warps 4 or 8",
    lambda problem, tile: (
        tile.block_n != 16 * tile.warps or tile.block_m not in (16, 32, 64, 128) or tile.warps not in (4, 8)
    ),
)
SMALL_M = (
    ONE_PRODUCT,
    POWER_OF_TWO,
    *(
        Limit(backend, one.reason, one.applies)
        for backend in ("cuda", "gluon")
        for one in (_FEW_ROWS, ROW_OF_128_BYTES, RING, SHARED_MEMORY)
    ),
)
"""Of rungs that multiply B by A."""


def _tiles_in_gluon(limits: tuple[Limit, ...]) -> Limit:
    """WARPGROUP_TILES, as Gluon has it."""
    return next(one for one in limits if one.backend == "gluon" and one.applies is WARPGROUP_TILES.applies)


TWO_TENSORS = tuple(
    {
        POWER_OF_TWO: Limit(
            "triton",
            "the columns of a tile are in two tensors, whose sizes are powers of two: block_n must be 192 or 320, and "
            "block_m and block_k powers of two",
            lambda problem, tile: (
                tile.block_n not in (192, 320) or any(size & size - 1 for size in (tile.block_m, block_k(tile)))
            ),
        ),
        _tiles_in_gluon(STAGED): Limit(
            "gluon",
            "one or two warpgroups multiply, in the registers of their threads: warps must be 4 or 8, block_m a "
            "multiple of 16 * warps, and block_m * block_n at most 6144 * warps",
            lambda problem, tile: (
                tile.warps not in (4, 8)
                or bool(tile.block_m % (16 * tile.warps))
                or tile.block_m * tile.block_n > 6144 * tile.warps
            ),
        ),
    }.get(limit, limit)
    for limit in STAGED
)
"""Of tile_192."""
STORED_BY_TURNS = (
    *PINGPONG,
    Limit(
        "gluon",
        "beside the rings of A and B each of two warpgroups needs a box of C, 128 bytes of each of its rows",
        lambda problem, tile: buffers(tile) + 2 * tile.block_m * 128 > SHARED_MEMORY_BYTES,
    ),
)
"""Of pingpong_store."""
TWO_BY_TURNS = (
    ONE_PRODUCT,
    Limit(
        "gluon",
        "two warpgroups have a tile each, whose columns are in two tensors: warps must be 8, block_m 128, block_n 192, "
        "block_k 64, and stages 2 or more",
        lambda problem, tile: (
            (tile.warps, tile.block_m, tile.block_n, block_k(tile)) != (8, 128, 192, 64) or tile.stages < 2
        ),
    ),
    STORED_BY_TURNS[-1],
)
"""Of pingpong_192."""
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
}
"""The flagship's schedules, by a tile's option `schedule`: 0, which no tile names, is the host's choice; the others are
kernels of the ladder (cuda_kernels/gemm/schedules.cuh), and pingpong_store and pingpong_192 (triton_kernels/gemm/
gluon_pingpong.py, gluon_pingpong_192.py). What each takes."""
SCHEDULES_IN = {
    "cuda": tuple(range(10)),
    "core_triton": (0, 1, 2, 4, 5, 6, 10),
    "gluon": (0, 1, 2, 4, 5, 6, 7, 9, 10, 11, 12),
}
"""Those that a language has."""


def schedule(tile: Tile) -> int:
    """The number of the schedule that a tile names."""
    return dict(tile.extra).get("schedule", 0)


def _of_schedules(limit: Limit) -> Limit:
    """The limit for those schedules alone that have it."""
    return replace(
        limit,
        applies=lambda problem, tile: limit in SCHEDULES.get(schedule(tile), ()) and limit.applies(problem, tile),
    )


def _named(backend: str) -> Limit:
    known = SCHEDULES_IN[backend]
    reason = f"schedule must be one of {', '.join(map(str, known))}"
    return Limit(backend, reason, lambda problem, tile: schedule(tile) not in known)


CHOOSES = (
    *(_of_schedules(limit) for limit in dict.fromkeys(chain(*SCHEDULES.values()))),
    Limit(
        "cuda",
        "where the tile names no schedule it chooses its columns itself, of tiles with 128 rows for two warpgroups: "
        "block_m must be 128 and warps 8",
        lambda problem, tile: schedule(tile) == 0 and (tile.block_m != 128 or tile.warps != 8),
    ),
    *map(_named, SCHEDULES_IN),
)
"""Of the rung that is compiled for several tiles, or as another rung."""
