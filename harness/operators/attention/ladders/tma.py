"""The ladder `tma`: mma.sync fed by bulk tensor copies and mbarriers. Plain data, standard library only."""

from harness.catalog.entries import Ladder, Limit, Technique, Tile, in_gluon
from harness.operators.attention.ladders.ampere import WGMMA_TILES
from harness.operators.attention.limits import (
    COLUMNS,
    GENERAL,
    GLUON_CONSUMER_REGISTERS,
    GLUON_ROWS,
    GLUON_TMA_ROWS,
    MMA,
    PLAIN,
    RING,
    ROWS,
    SHARED_MEMORY,
    TWO_WARPGROUPS,
)

LADDER = Ladder(
    "tma",
    "TMA: mma.sync fed by bulk tensor copies and mbarriers",
    archs=("sm_90a", "sm_120a"),
    capabilities=(9, 12),
    operator="attention",
)

RINGS = (RING, *in_gluon(RING))
TWO_HALVES = Limit(
    "hatch",
    "the lock is between two halves of eight warps, with 128 or 256 rows",
    lambda problem, tile: tile.warps != 8 or tile.block_m not in (128, 256),
)
CONSUMERS = (
    *GENERAL,
    *RINGS,
    TWO_WARPGROUPS,
    *in_gluon(TWO_WARPGROUPS),
    GLUON_TMA_ROWS,
    GLUON_CONSUMER_REGISTERS,
    *in_gluon(SHARED_MEMORY),
)
RING_TILES = tuple(Tile(m, n, 2, m // 16) for m in (64, 128) for n in (64, 128))

TECHNIQUES = LADDER.rungs(
    Technique(
        "tma_loads",
        "loads by TMA (cp.async.bulk.tensor): one thread asks for a tile, and its bytes complete on an mbarrier",
        builds_on=("exp2_softmax", "ldmatrix_x4", "cp_async_pipeline"),
        grid={"triton": Tile.grid((64, 128), (64, 128), (1, 2), (4, 8)), "triton_native": WGMMA_TILES},
        limits=MMA,
    ),
    Technique(
        "tma_swizzle",
        "the 128-byte hardware swizzle; ldmatrix addresses follow it",
        builds_on=("tma_loads",),
        shows="DEVICE uint32_t tile_address",
    ),
    Technique(
        "mbarrier_ring",
        "full and empty mbarriers, two buffers of K and of V; no barrier of the whole block",
        builds_on=("tma_swizzle",),
        tile={64: Tile(64, 128, 2), 128: Tile(64, 128, 2)},
        grid={"cuda": RING_TILES, "gluon": RING_TILES},
        limits=(*PLAIN, ROWS, COLUMNS, GLUON_ROWS, *RINGS),
    ),
    Technique(
        "warp_specialized",
        "one producer warp, eight consumer warps",
        builds_on=("mbarrier_ring",),
        also=("tile",),
        tile={64: Tile(128, 128, 2, 8), 128: Tile(128, 128, 2, 8)},
        grid={"triton": Tile.grid((128,), (64, 128), (2, 3), (8,)), "triton_native": ()},
        limits=(
            *PLAIN,
            ROWS,
            COLUMNS,
            GLUON_ROWS,
            *RINGS,
            Limit(
                "triton_native",
                "Triton's own pass for warp specialization fails on sm_90 with four warps and wgmma: warps must be 8",
                lambda problem, tile: tile.warps == 4,
            ),
        ),
    ),
    Technique(
        "lean_mbarrier_ring",
        "K and V by TMA into rings of buffers in the lean kernel: no barrier of the whole block in the loop",
        builds_on=("lean_instructions", "mbarrier_ring"),
        also=("tile",),
        tile={64: Tile(128, 128, 2), 128: Tile(128, 64, 2), 256: Tile(64, 32, 2)},
        grid={
            "cuda": (
                *(Tile(128, n, 2) for n in (48, 64, 80, 96, 112, 128)),
                *(Tile(64, n, 2) for n in (32, 64)),
                *(Tile(128, n, 3) for n in (48, 64)),
            ),
            "triton": (
                *Tile.grid((128,), (32, 64), (2, 3), (4,)),
                *Tile.grid((128,), (64, 128), (2,), (8,)),
                *Tile.grid((256,), (64,), (2, 3), (8,)),
                *(Tile(128, 64), Tile(64, 64, 2)),
            ),
            "triton_native": WGMMA_TILES,
        },
        limits=(*GENERAL, RING),
        general=True,
    ),
    Technique(
        "lazy_rescale",
        "O is rescaled only when an exponential relative to the row maximum in use would exceed 4",
        builds_on=("lean_mbarrier_ring",),
        general=True,
    ),
    Technique(
        "setmaxnreg_consumers",
        "a producer warpgroup gives its registers to eight consumer warps",
        builds_on=("lean_mbarrier_ring", "warp_specialized"),
        also=("tile",),
        tile={64: Tile(256, 64, 3, 8), 128: Tile(256, 64, 3, 8), 256: Tile(128, 32, 2, 8)},
        grid={
            "cuda": (*(Tile(256, n, 2, 8) for n in (64, 96, 128)), *(Tile(256, n, 3, 8) for n in (48, 64, 96))),
            "gluon": (
                *Tile.grid((256,), (32, 64), (2, 3), (8,)),
                *(Tile(m, n, 2, 8) for m, n in ((256, 128), (128, 64), (128, 128))),
            ),
        },
        limits=CONSUMERS,
        general=True,
    ),
    Technique(
        "softmax_lock",
        "only one consumer warpgroup at a time is in its softmax; the other has the tensor cores",
        builds_on=("setmaxnreg_consumers",),
        limits=(*CONSUMERS, TWO_HALVES),
        general=True,
        shows="bar_sync(my_turn, CONSUMERS)",
    ),
    Technique(
        "scores_in_flight",
        "Q K^T of the next tile is issued before the softmax of this one",
        builds_on=("setmaxnreg_consumers",),
        grid={
            "cuda": (
                *(Tile(256, n, stages, 8) for stages in (2, 3) for n in (32, 48, 64)),
                *(Tile(128, n, stages, 8) for stages in (2, 3) for n in (64, 128)),
            ),
        },
        limits=(*GENERAL, RING, TWO_WARPGROUPS),
        general=True,
    ),
    Technique(
        "lazy_consumers",
        "the lazy rescale in eight consumer warps with more registers",
        builds_on=("setmaxnreg_consumers", "lazy_rescale"),
        limits=(*GENERAL, RING, TWO_WARPGROUPS),
        general=True,
    ),
    Technique(
        "lazy_scores_in_flight",
        "the lazy rescale with the scores of two tiles in flight",
        builds_on=("scores_in_flight", "lazy_consumers"),
        general=True,
    ),
)
