"""The ladder `decode`: few queries beside many keys, where bytes a second decide. Plain data, standard library only."""

from __future__ import annotations

from harness.catalog.entries import Ladder, Technique, Tile
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
)

SMALL = {64: Tile(16, 64, 1, 1), 128: Tile(16, 64, 1, 1), 256: Tile(16, 32, 1, 1)}
"""One warp, so that many blocks of a multiprocessor wait for memory at once."""

ANY_STAGES = (GENERAL_HEAD_DIM, POWER_OF_TWO, ROWS, COLUMNS)
LIMITS = (*ANY_STAGES, ONE_STAGE)

TECHNIQUES = LADDER.rungs(
    Technique(
        "packed_heads",
        "decode",
        "the query heads that share a head of K and V share a tile: every key is read once for all of them",
        builds_on=("general_shapes",),
        also=("tile",),
        tile=SMALL,
        grid={
            "cuda": tuple(Tile(16 * warps, n, 1, warps) for warps in (1, 2) for n in (32, 64, 128)),
            "triton": Tile.grid((16,), (32, 64, 128), (1, 2, 3), (1, 2, 4)),
        },
        limits=LIMITS,
        general=True,
    ),
    Technique(
        "split_keys",
        "decode",
        "the keys are cut into parts, one block each, to occupy the whole GPU; a second kernel joins the parts",
        builds_on=("packed_heads",),
        limits=LIMITS,
        general=True,
    ),
    Technique(
        "one_launch_join",
        "decode",
        "the last block of a tile joins its parts, in the same launch",
        builds_on=("split_keys",),
        limits=LIMITS,
        general=True,
    ),
    Technique(
        "flagship_decode",
        "decode",
        "K and V arrive by TMA in rings of buffers: a block always has several tiles on their way from memory",
        builds_on=("one_launch_join",),
        tile={64: Tile(16, 64, 4, 1), 128: Tile(16, 64, 2, 1), 256: Tile(16, 32, 2, 1)},
        grid={"cuda": tuple(Tile(16, n, stages, 1) for n in (32, 64, 128) for stages in (2, 3, 4))},
        limits=(*ANY_STAGES, RING, SHARED_MEMORY),
        general=True,
    ),
)
