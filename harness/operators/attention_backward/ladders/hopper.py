"""The ladder `hopper`: from two kernels with mma.sync to one whose warps have roles. Plain data, standard library only.

block_m are query rows and block_n keys; stages are buffers of Q, and as many of dO.
"""

from __future__ import annotations

from harness.catalog.entries import Ladder, Technique, Tile
from harness.operators.attention_backward.limits import (
    DQ_BUFFER,
    GENERAL,
    MMA,
    RING,
    SHARED_MEMORY,
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
)

MMA_TILES = (Tile(64, 64, 2, 4), Tile(64, 128, 2, 8), Tile(32, 64, 2, 4), Tile(32, 128, 2, 8))
TRITON_TILES = Tile.grid((32, 64, 128), (64, 128), (1, 2, 3), (4, 8))
TALL = {64: Tile(128, 128, 2, 8), 128: Tile(64, 128, 2, 8)}

TECHNIQUES = LADDER.rungs(
    Technique(
        "two_kernels",
        "hopper",
        "one kernel has a tile of keys and sums dK and dV, another has a tile of queries and sums dQ",
        tile={64: Tile(64, 128, 2, 8), 128: Tile(64, 128, 2, 8)},
        grid={"cuda": MMA_TILES, "triton": TRITON_TILES},
        limits=MMA,
        general=True,
    ),
    Technique(
        "one_kernel",
        "hopper",
        "five products instead of seven: a tile of keys also adds its part of dQ, atomically, in fp32",
        builds_on=("two_kernels",),
        limits=MMA,
        general=True,
        repeats=False,
    ),
    Technique(
        "vector_atomics",
        "hopper",
        "dQ is added 16 bytes at a time: lanes exchange two numbers for it",
        builds_on=("one_kernel",),
        limits=MMA,
        general=True,
        repeats=False,
    ),
    Technique(
        "wgmma",
        "hopper",
        "each warpgroup multiplies 64 queries by its own 64 keys, straight from shared memory",
        builds_on=("vector_atomics",),
        mma="wgmma",
        grid={"cuda": (Tile(64, 128, 2, 8), Tile(64, 64, 2, 4))},
        limits=(*GENERAL, WARPGROUPS, TWO_STAGES, SHARED_MEMORY),
        general=True,
        repeats=False,
    ),
    Technique(
        "tma_ring",
        "hopper",
        "Q and dO come by TMA into a ring of buffers, with LSE and D: one thread asks for them, steps ahead",
        builds_on=("wgmma",),
        mma="wgmma",
        grid={"cuda": (Tile(64, 128, 2, 8), Tile(64, 128, 3, 8), Tile(64, 64, 2, 4))},
        limits=(*GENERAL, WARPGROUPS, RING, SHARED_MEMORY),
        general=True,
        repeats=False,
    ),
    Technique(
        "transposed_scores",
        "hopper",
        "scores have a row for each key: P and dS are left operands of dV and dK in registers",
        builds_on=("tma_ring",),
        also=("tile",),
        mma="wgmma",
        tile=TALL,
        grid={"cuda": (*TALL.values(), Tile(64, 128, 3, 8))},
        limits=(*GENERAL, TWO_WARPGROUPS, RING, SHARED_MEMORY),
        general=True,
        repeats=False,
    ),
    Technique(
        "producer_consumer",
        "hopper",
        "one thread loads ahead of the warpgroups that multiply, which get the producer's registers",
        builds_on=("transposed_scores",),
        mma="wgmma",
        limits=(*GENERAL, TWO_WARPGROUPS, RING, SHARED_MEMORY),
        general=True,
        repeats=False,
    ),
    Technique(
        "bulk_reduce",
        "hopper",
        "two warps of their own add dQ from shared memory, 16 KB at a time",
        builds_on=("producer_consumer",),
        mma="wgmma",
        limits=(*GENERAL, TWO_WARPGROUPS, RING, DQ_BUFFER),
        general=True,
        repeats=False,
    ),
    Technique(
        "overlapped",
        "hopper",
        "products in flight under the arithmetic: dP under P, dV under dS, dK while dQ is stored",
        builds_on=("bulk_reduce",),
        mma="wgmma",
        limits=(*GENERAL, TWO_WARPGROUPS, RING, DQ_BUFFER),
        general=True,
        repeats=False,
    ),
    Technique(
        "next_scores",
        "hopper",
        "S of the next step is issued before dK of this one ends",
        builds_on=("overlapped",),
        mma="wgmma",
        limits=(*GENERAL, TWO_WARPGROUPS, RING, DQ_BUFFER),
        general=True,
        repeats=False,
    ),
    Technique(
        "mask_apart",
        "hopper",
        "the mask is a branch that whole tiles do not take, and that keeps the exponentials under dP",
        builds_on=("overlapped",),
        builds_on_in={"triton": "bulk_reduce"},
        mma="wgmma",
        limits=(*GENERAL, TWO_WARPGROUPS, RING, DQ_BUFFER),
        general=True,
        repeats=False,
    ),
    Technique(
        "deterministic",
        "hopper",
        "blocks add to a tile of dQ in the order in which they reach it anyway: every run gives the same bits",
        builds_on=("mask_apart",),
        mma="wgmma",
        limits=(*GENERAL, TWO_WARPGROUPS, RING, DQ_BUFFER),
        general=True,
    ),
)
