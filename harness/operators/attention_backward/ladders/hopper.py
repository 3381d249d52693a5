"""The ladder `hopper`: from two kernels with mma.sync to one whose warps have roles. Plain data, standard library only.

block_m are query rows and block_n keys; stages are buffers of Q, and as many of dO.
"""

from __future__ import annotations

from harness.catalog.entries import Ladder, Technique, Tile
from harness.operators.attention_backward.limits import HEAD_DIM, POWER_OF_TWO, TILE_ROWS

LADDER = Ladder(
    "hopper",
    "Hopper: one pass over the keys, wgmma, and who adds up dQ",
    archs=("sm_90a",),
    capabilities=(9,),
    operator="attention_backward",
)

TECHNIQUES = LADDER.rungs(
    Technique(
        "two_kernels",
        "hopper",
        "one kernel has a tile of keys and adds up dK and dV, another has a tile of queries and adds up dQ",
        tile={64: Tile(64, 64, 2, 4), 128: Tile(64, 64, 2, 4)},
        limits=(HEAD_DIM, POWER_OF_TWO, TILE_ROWS),
        general=True,
    ),
)
