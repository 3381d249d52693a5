"""The ladder `hopper`: from two kernels with mma.sync to one whose warps have roles. Plain data, standard library only.

block_m are query rows and block_n keys; stages are buffers of Q, and as many of dO.
"""

from harness.catalog.entries import Ladder, Technique, Tile
from harness.operators.attention_backward.limits import (
    DQ_BUFFER,
    EIGHTY_ROWS,
    FULL,
    GENERAL,
    GLUON,
    HEAD_DIM_128,
    HEAD_DIM_256,
    MMA,
    RING,
    SHARED_MEMORY,
    TWO_DQ_BUFFERS,
    TWO_STAGES,
    TWO_WARPGROUPS,
    WARPGROUPS,
)

LADDER = Ladder(
    "hopper",
    "Hopper: one pass over the keys, wgmma, and who adds up dQ",
    archs=("sm_90a",),
    capabilities=(9,),
    operator="attention_backward",
    every={"mma": "wgmma", "general": True},
)

MMA_TILES = (Tile(64, 64, 2, 4), Tile(64, 128, 2, 8), Tile(32, 64, 2, 4), Tile(32, 128, 2, 8))
TRITON_TILES = Tile.grid((32, 64, 128), (64, 128), (1, 2, 3), (4, 8))
EIGHTY = Tile(80, 128, 2, 8)
TALL = {64: Tile(128, 128, 2, 8), 128: Tile(64, 128, 2, 8)}

WITH_MMA_SYNC = LADDER.rungs(
    Technique(
        "two_kernels",
        "one kernel has a tile of keys and sums dK and dV, another has a tile of queries and sums dQ",
        tile={64: Tile(64, 128, 2, 8), 128: Tile(64, 128, 2, 8)},
        grid={"cuda": MMA_TILES, "triton": TRITON_TILES},
        limits=MMA,
    ),
    Technique(
        "one_kernel",
        "five products instead of seven: a tile of keys also adds its part of dQ, atomically, in fp32",
        builds_on=("two_kernels",),
        repeats=False,
    ),
    Technique(
        "vector_atomics",
        "dQ is added 16 bytes at a time: lanes exchange two numbers for it",
        builds_on=("one_kernel",),
        repeats=False,
    ),
    mma="mma_sync",
)

WITH_WGMMA = LADDER.rungs(
    Technique(
        "wgmma",
        "each warpgroup multiplies 64 queries by its own 64 keys, straight from shared memory",
        builds_on=("vector_atomics",),
        grid={"cuda": (Tile(64, 128, 2, 8), Tile(64, 64, 2, 4))},
        limits=(*GENERAL, WARPGROUPS, TWO_STAGES, SHARED_MEMORY),
        repeats=False,
    ),
    Technique(
        "tma_ring",
        "Q and dO come by TMA into a ring of buffers, with LSE and D: one thread asks for them, steps ahead",
        builds_on=("wgmma",),
        grid={"cuda": (Tile(64, 128, 2, 8), Tile(64, 128, 3, 8), Tile(64, 64, 2, 4))},
        limits=(*GENERAL, WARPGROUPS, RING, SHARED_MEMORY),
        repeats=False,
    ),
    Technique(
        "transposed_scores",
        "scores have a row for each key: P and dS are left operands of dV and dK in registers",
        builds_on=("tma_ring",),
        also=("tile",),
        tile=TALL,
        grid={"cuda": (*TALL.values(), Tile(64, 128, 3, 8))},
        limits=(*GENERAL, TWO_WARPGROUPS, RING, SHARED_MEMORY),
        repeats=False,
    ),
    Technique(
        "producer_consumer",
        "one thread loads ahead of the warpgroups that multiply, which get the producer's registers",
        builds_on=("transposed_scores",),
        repeats=False,
    ),
    Technique(
        "bulk_reduce",
        "two warps of their own add dQ from shared memory, 16 KB at a time",
        builds_on=("producer_consumer",),
        grid={"gluon": (Tile(64, 128, 3, 8), Tile(128, 128, 3, 8))},
        limits=(*GENERAL, TWO_WARPGROUPS, RING, DQ_BUFFER, *GLUON),
        repeats=False,
    ),
    Technique(
        "overlapped",
        "products in flight under the arithmetic: dP under P, dV under dS, dK while dQ is stored",
        builds_on=("bulk_reduce",),
        repeats=False,
    ),
    Technique(
        "next_scores",
        "S of the next step is issued before dK of this one ends",
        builds_on=("overlapped",),
        limits=(*GENERAL, TWO_WARPGROUPS, RING, DQ_BUFFER),
        repeats=False,
    ),
    Technique(
        "own_keys",
        "each warpgroup adds to dQ what its own keys give: no dS of the other, and no barrier with it",
        builds_on=("overlapped",),
        limits=(*GENERAL, TWO_WARPGROUPS, RING, TWO_DQ_BUFFERS),
        repeats=False,
    ),
    Technique(
        "mask_apart",
        "the mask is a branch that whole tiles do not take, and that keeps the exponentials under dP",
        builds_on=("overlapped",),
        builds_on_in={"triton": "bulk_reduce"},
        repeats=False,
    ),
    Technique(
        "longest_first",
        "blocks stay and take tiles of keys from a counter, longest first: K and V come while dK and dV are stored",
        builds_on=("mask_apart",),
        repeats=False,
    ),
    Technique(
        "descending",
        "blocks go through the queries from the last one on: those of a head begin at the same tile, and stay together",
        builds_on=("longest_first",),
        limits=(*GENERAL, TWO_WARPGROUPS, RING, DQ_BUFFER),
        repeats=False,
    ),
    Technique(
        "next_tile",
        "the next keys and queries come before the last products end, and dK and dV leave 16 bytes at a time",
        builds_on=("descending",),
        repeats=False,
    ),
    Technique(
        "early_launch",
        "programmatic dependent launch: blocks set up and ask for K and V while the kernel before them computes D",
        builds_on=("longest_first",),
        limits=(*GENERAL, TWO_WARPGROUPS, RING, DQ_BUFFER),
        repeats=False,
    ),
    Technique(
        "deterministic",
        "blocks add to a tile of dQ in the order in which they reach it anyway: every run gives the same bits",
        builds_on=("next_tile",),
        builds_on_in={"triton": "mask_apart"},
    ),
    Technique(
        "loads_first",
        "a step asks for all of its tiles before its first product, so that no wait stands between the products",
        builds_on=("next_tile",),
        builds_on_in={"triton": "deterministic"},
        limits=(HEAD_DIM_256, *GENERAL, TWO_WARPGROUPS, RING, DQ_BUFFER),
        repeats=False,
    ),
    Technique(
        "flagship",
        "a schedule for each problem: tiles of keys that would fill no round of the GPU are shared by blocks",
        builds_on=("next_tile",),
        builds_on_in={"triton": "deterministic"},
        limits=(HEAD_DIM_256, *GENERAL, TWO_WARPGROUPS, RING, DQ_BUFFER, *GLUON),
        repeats=False,
    ),
    Technique(
        "paired_tiles",
        "heads that share K and V go together as long as they have two tiles of keys for each multiprocessor, not four",
        builds_on=("flagship",),
        limits=(HEAD_DIM_256, *GENERAL, TWO_WARPGROUPS, RING, DQ_BUFFER),
        repeats=False,
    ),
    Technique(
        "half_steps",
        "a step goes through its queries in two halves: products of one run under the exponentials of the other",
        builds_on=("paired_tiles",),
        repeats=False,
    ),
    Technique(
        "ordered_halves",
        "half_steps whose bits repeat: blocks add to a tile of dQ in a fixed order, and come to it in that order",
        builds_on=("half_steps",),
        limits=(HEAD_DIM_256, *GENERAL, TWO_WARPGROUPS, TWO_STAGES, TWO_DQ_BUFFERS),
    ),
)

WITHOUT_MASK = LADDER.rungs(
    Technique(
        "eighty_rows",
        "80 queries a step instead of 64, for which a tile of K or V is read once: dQ is computed transposed",
        builds_on=("half_steps",),
        tile={128: EIGHTY},
        grid={"cuda": (EIGHTY,)},
        limits=(FULL, HEAD_DIM_128, *GENERAL, EIGHTY_ROWS),
        repeats=False,
    ),
    general=False,
)

TECHNIQUES = WITH_MMA_SYNC + WITH_WGMMA + WITHOUT_MASK
