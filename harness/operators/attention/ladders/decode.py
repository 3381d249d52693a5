"""The ladder `decode`: few queries beside many keys, where bytes a second decide. Plain data, standard library only."""

from harness.catalog.entries import Ladder, Limit, Technique, Tile, in_gluon
from harness.operators.attention.limits import (
    COLUMNS,
    GENERAL_HEAD_DIM,
    ONE_STAGE,
    POWER_OF_TWO,
    RING,
    ROWS,
    SHARED_MEMORY,
)

LADDER = Ladder(
    "decode",
    "Decode: few queries, many keys",
    archs=("sm_90a",),
    capabilities=(9,),
    experiment="decode",
    operator="attention",
    every={"general": True},
)

SMALL = {64: Tile(16, 64, 1, 1), 128: Tile(16, 64, 1, 1), 256: Tile(16, 32, 1, 1)}
"""One warp, so that many blocks of a multiprocessor wait for memory at once."""

SHARED = ((16, 64, 4), (16, 128, 8), (32, 64, 4), (64, 64, 4), (64, 64, 8))
"""Rows, keys and warps of tiles whose keys are divided over warps."""

KEY_WARPS = Limit(
    "*",
    "each warp has 16 rows and a part of the keys: warps must be a multiple of block_m / 16, and block_n one of 16 "
    "keys for each warp with the same rows",
    lambda problem, tile: bool(
        tile.block_m % 16
        or tile.warps % (tile.block_m // 16)
        or tile.block_n % (16 * (16 * tile.warps // tile.block_m))
    ),
)
EXCHANGE = Limit(
    "cuda",
    "O in fp32 of every warp must fit the rings of K and V, over which warps exchange it",
    lambda problem, tile: (
        16 * tile.warps * 4 * (problem.head_dim + 9) > 4 * problem.head_dim * tile.stages * tile.block_n
    ),
)

ANY_STAGES = (GENERAL_HEAD_DIM, POWER_OF_TWO, ROWS, COLUMNS)
LIMITS = (*ANY_STAGES, ONE_STAGE)

TECHNIQUES = LADDER.rungs(
    Technique(
        "packed_heads",
        "the query heads that share a head of K and V share a tile: every key is read once for all of them",
        builds_on=("general_shapes",),
        also=("tile",),
        tile=SMALL,
        grid={
            "cuda": tuple(Tile(16 * warps, n, 1, warps) for warps in (1, 2) for n in (32, 64, 128)),
            "triton": Tile.grid((16,), (32, 64, 128), (1, 2, 3), (1, 2, 4)),
        },
        limits=LIMITS,
    ),
    Technique(
        "split_keys",
        "the keys are cut into parts, one block each, to occupy the whole GPU; a second kernel joins the parts",
        builds_on=("packed_heads",),
    ),
    Technique(
        "one_launch_join",
        "the last block of a tile joins its parts, in the same launch",
        builds_on=("split_keys",),
    ),
    Technique(
        "kv_rings",
        "K and V arrive by TMA in rings of buffers: a block always has several tiles on their way from memory",
        builds_on=("one_launch_join",),
        tile={64: Tile(16, 64, 6, 1), 128: Tile(16, 64, 3, 1), 256: Tile(16, 32, 3, 1)},
        grid={
            "cuda": tuple(
                Tile(16 * warps, n, s, warps) for warps in (1, 2) for n in (32, 64, 128) for s in (2, 3, 4, 6)
            ),
            "triton": Tile.grid((16,), (32, 64, 128), (2, 3, 4, 6), (1, 2, 4)),
        },
        limits=(*ANY_STAGES, RING, SHARED_MEMORY),
    ),
    Technique(
        "flagship_decode",
        "warps divide the keys of a tile, and Q stays in registers: several warps share a tile's latency",
        builds_on=("kv_rings",),
        also=("tile",),
        tile={64: Tile(16, 128, 6, 8), 128: Tile(16, 128, 3, 8), 256: Tile(16, 64, 3, 4)},
        grid={
            backend: tuple(Tile(m, n, stages, warps) for m, n, warps in SHARED for stages in (2, 3, 4, 6))
            for backend in ("cuda", "triton", "gluon")
        },
        limits=(
            *(GENERAL_HEAD_DIM, POWER_OF_TWO, KEY_WARPS, EXCHANGE, COLUMNS, RING, SHARED_MEMORY),
            *in_gluon(RING, SHARED_MEMORY),
        ),
    ),
    Technique(
        "short_fetches",
        "a miss of K or V lets L2 fetch 128 bytes instead of 256: what a box has of a row",
        builds_on=("flagship_decode",),
        shows="encode_short_fetches(ring.k",
    ),
    Technique(
        "parts_at_once",
        "the join reads several parts of all rows of a warp at once, however many parts there are, and one thread has "
        "the fences around the counter",
        builds_on=("short_fetches",),
        shows="join_parts_at_once(params, places)",
    ),
)
