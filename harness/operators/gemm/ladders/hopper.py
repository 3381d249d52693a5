"""The ladder `hopper`: wgmma, and what keeps it fed. Plain data, standard library only."""

from __future__ import annotations

from dataclasses import replace

from harness.catalog.entries import Ladder, Technique, Tile
from harness.operators.gemm.limits import (
    CHOOSES,
    GROUPS,
    PAIRS,
    PINGPONG,
    SMALL_M,
    STAGED,
    TWO_TENSORS,
    WARPGROUPS,
    WAVES,
    WHOLE_TILES,
)

LADDER = Ladder(
    "hopper",
    "Hopper: wgmma, TMA, registers moved between warpgroups",
    archs=("sm_90a",),
    capabilities=(9,),
    operator="gemm",
)

_SCHEDULED = {
    backend: tuple(
        replace(tile, extra=(*tile.extra, ("schedule", schedule)))
        for schedule, slugs in schedules.items()
        for tile in map(Tile.parse, slugs.split())
    )
    for backend, schedules in {
        "cuda": {
            1: "128x256-s4-w8 128x256-s3-w8 128x192-s5-w8 128x128-s6-w8 128x128-s6-w4",
            2: "128x256-s4-w8 128x256-s4-w8-group_m16 128x256-s3-w8-group_m16 128x192-s5-w8-group_m16 128x128-s6-w8",
            3: "128x256-s4-w8 128x256-s3-w8 128x256-s4-w8-group_m4 128x192-s5-w8 128x192-s4-w8 128x128-s6-w8",
            4: "128x256-s4-w8 128x256-s3-w8 128x192-s5-w8 128x128-s6-w8",
            5: "128x256-s4-w8 128x192-s5-w8 128x128-s6-w8 128x128-s6-w4 64x256-s5-w4 64x128-s8-w4 128x64-s8-w8",
            6: "16x128-s10-w8 16x64-s10-w4 32x64-s10-w4 32x128-s10-w8 64x64-s10-w4 64x128-s8-w8 128x128-s6-w8",
            7: "128x128-s6-w8 128x128-s6-w8-group_m16 128x64-s8-w8",
            8: "128x128-s6-w8 128x64-s8-w8 64x128-s8-w4 64x256-s5-w4",
            9: "128x256-s4-w8 128x256-s3-w8 128x192-s5-w8",
        },
        "triton": {
            1: "128x256-s4-w8 128x256-s3-w8 256x128-s4-w8 128x128-s6-w8 128x128-s6-w4 128x128-s5-w4 64x256-s4-w4 "
            "64x128-s8-w4",
            2: "128x256-s4-w8 128x256-s3-w8 256x128-s4-w8 128x128-s6-w8 128x128-s6-w4",
            4: "128x256-s4-w8 128x256-s3-w8 256x128-s4-w8 128x128-s6-w8 128x128-s6-w4",
            5: "128x256-s4-w8 128x256-s3-w8 256x128-s4-w8 128x128-s6-w8 128x128-s6-w4 64x256-s4-w4 64x128-s8-w4 "
            "128x64-s8-w4 64x64-s10-w4",
            6: "16x64-s10-w4 16x128-s8-w4 16x128-s10-w8 32x64-s10-w4 32x128-s8-w8 64x64-s10-w4 64x128-s6-w4 "
            "64x128-s8-w8",
            10: "128x192-s5-w8 128x192-s4-w8 256x192-s3-w8 128x320-s3-w8 64x192-s6-w4",
        },
        "gluon": {
            1: "128x256-s4-w8 128x256-s3-w8 256x128-s4-w8 192x128-s5-w12 192x128-s4-w12 128x128-s6-w8 128x128-s6-w4 "
            "64x256-s4-w4 64x128-s8-w4 128x64-s8-w8",
            2: "128x256-s4-w8 128x256-s3-w8 256x128-s4-w8 128x128-s6-w8 128x128-s6-w4",
            4: "128x256-s4-w8 128x256-s3-w8 256x128-s4-w8 128x128-s6-w8 128x128-s6-w4",
            5: "128x256-s4-w8 128x256-s3-w8 256x128-s4-w8 128x128-s6-w8 128x128-s6-w4 64x256-s4-w4 64x128-s8-w4 "
            "128x64-s8-w8 64x64-s10-w4",
            6: "16x64-s10-w4 16x128-s8-w8 16x128-s10-w8 32x64-s10-w4 32x128-s8-w8 64x64-s10-w4 64x128-s8-w8 "
            "128x128-s6-w8",
            7: "128x128-s6-w8 128x128-s5-w8 128x64-s8-w8",
            10: "128x192-s5-w8 128x192-s4-w8 256x192-s3-w8 128x320-s3-w8 64x192-s6-w4",
            11: "128x128-s6-w8 128x128-s5-w8 128x64-s8-w8",
        },
    }.items()
}
"""Tiles of the flagship with their schedules (SCHEDULES in limits.py), by language."""

TECHNIQUES = LADDER.rungs(
    Technique(
        "wgmma",
        "hopper",
        "a warpgroup multiplies 64 rows by all columns of the tile, straight from shared memory",
        builds_on=("l2_grid_order",),
        also=("tile",),
        mma="wgmma",
        tile={0: Tile(128, 128, 3, 4)},
        grid={
            "cuda": Tile.grid((64, 128), (64, 128, 192, 256), (2, 3, 4), (4, 8)),
            "triton": Tile.grid((64, 128), (64, 128, 256), (2, 3, 4), (4, 8)),
        },
        limits=(WHOLE_TILES, *WARPGROUPS),
    ),
    Technique(
        "tma_swizzle",
        "hopper",
        "tiles come by TMA, swizzled: one thread asks for a whole box",
        builds_on=("wgmma",),
        mma="wgmma",
        limits=WARPGROUPS,
        general=True,
    ),
    Technique(
        "mbarrier_ring",
        "hopper",
        "full and empty mbarriers in place of the block's barrier: warps drift apart",
        builds_on=("tma_swizzle",),
        mma="wgmma",
        limits=WARPGROUPS,
        general=True,
    ),
    Technique(
        "producer_consumer",
        "hopper",
        "one thread loads ahead of the warpgroup that multiplies, which gets the producer's registers",
        builds_on=("mbarrier_ring",),
        also=("stages",),
        mma="wgmma",
        tile={0: Tile(128, 128, 5, 4)},
        grid={
            "cuda": Tile.grid((64, 128), (128, 192, 256), (3, 4, 5, 6), (4, 8)),
            "gluon": Tile.grid((64, 128, 256), (64, 128, 256), (3, 4, 5, 6), (4, 8)),
        },
        limits=WARPGROUPS,
        general=True,
    ),
    Technique(
        "two_consumers",
        "hopper",
        "two warpgroups multiply, 64 rows by 256 columns each: while one waits, the other one's products run",
        builds_on=("producer_consumer",),
        also=("tile",),
        mma="wgmma",
        tile={0: Tile(128, 256, 3, 8)},
        limits=WARPGROUPS,
        general=True,
    ),
    Technique(
        "persistent",
        "hopper",
        "a block works on tile after tile: the next one loads during the epilogue",
        builds_on=("two_consumers",),
        builds_on_in={"triton": "tma_swizzle"},
        mma="wgmma",
        grid={
            "triton": (
                *Tile.grid((128,), (256,), (3, 4), (8,)),
                *Tile.grid((256,), (128,), (3, 4), (8,)),
                *Tile.grid((128,), (128,), (4, 5, 6), (4, 8)),
                *Tile.grid((64,), (128, 256), (4,), (4,)),
            )
        },
        limits=WARPGROUPS,
        general=True,
    ),
    Technique(
        "pingpong",
        "hopper",
        "two warpgroups have a tile each: one multiplies while the other one writes C",
        builds_on=("persistent",),
        also=("tile",),
        mma="wgmma",
        tile={0: Tile(128, 128, 6, 8)},
        grid={"cuda": Tile.grid((128,), (64, 128), (4, 5, 6), (8,))},
        limits=PINGPONG,
        general=True,
    ),
    Technique(
        "tma_store_epilogue",
        "hopper",
        "C leaves by TMA from shared memory while the next tile is multiplied",
        builds_on=("persistent",),
        also=("stages",),
        mma="wgmma",
        tile={0: Tile(128, 256, 4, 8)},
        grid={"cuda": Tile.grid((128,), (128, 192, 256), (3, 4, 5, 6), (4, 8))},
        limits=STAGED,
        general=True,
    ),
    Technique(
        "square_waves",
        "hopper",
        "tiles are taken in groups so high that those of one wave cover a square of C",
        builds_on=("tma_store_epilogue",),
        mma="wgmma",
        limits=WAVES,
        general=True,
    ),
    Technique(
        "trailing_store",
        "hopper",
        "C of a tile is packed to 16 bits and stored under the products of the next one",
        builds_on=("square_waves",),
        mma="wgmma",
        limits=STAGED,
        general=True,
    ),
    Technique(
        "cluster_multicast",
        "hopper",
        "two blocks of a cluster share B: each loads half, which multicast delivers to both",
        builds_on=("tma_store_epilogue",),
        builds_on_in={"gluon": "persistent"},
        mma="wgmma",
        limits=(*STAGED, *PAIRS),
        general=True,
    ),
    Technique(
        "tile_192",
        "hopper",
        "tiles of 128 x 192: the last wave is fuller at some sizes",
        builds_on=("cluster_multicast",),
        builds_on_in={"triton": "square_waves", "gluon": "square_waves"},
        also=("tile",),
        mma="wgmma",
        tile={0: Tile(128, 192, 5, 8)},
        limits=TWO_TENSORS,
        general=True,
    ),
    Technique(
        "split_k",
        "hopper",
        "blocks of a cluster share a tile of C: each has a part of k, and they add up in shared memory",
        builds_on=("two_consumers",),
        builds_on_in={"triton": "tma_swizzle"},
        also=("stages",),
        mma="wgmma",
        tile={0: Tile(128, 256, 4, 8)},
        grid={"triton": (*Tile.grid((64, 128), (128,), (4, 5, 6), (4,)), *Tile.grid((128,), (256,), (3, 4), (8,)))},
        limits=WARPGROUPS,
        general=True,
    ),
    Technique(
        "small_m",
        "hopper",
        "operands change places: rows of B fill wgmma's 64 rows, and the few rows of A are its columns",
        builds_on=("split_k",),
        also=("tile",),
        mma="wgmma",
        tile={0: Tile(64, 128, 8, 8)},
        grid={
            "cuda": Tile.grid((16, 32, 64, 128), (64, 128), (6, 8, 10), (4, 8)),
            "triton": Tile.grid((16, 64), (64, 128), (6, 8), (4, 8)),
            "gluon": Tile.grid((16, 32, 64, 128), (64, 128), (6, 8, 10), (4, 8)),
        },
        limits=SMALL_M,
        general=True,
    ),
    Technique(
        "stream_k",
        "hopper",
        "clusters share the steps of some tiles evenly, where whole tiles would leave the last wave empty",
        builds_on=("cluster_multicast",),
        builds_on_in={"triton": "tma_store_epilogue", "gluon": "tma_store_epilogue"},
        mma="wgmma",
        limits=STAGED,
        general=True,
    ),
    Technique(
        "flagship",
        "hopper",
        "a tuned tile names the kernel of the ladder; else the host chooses by the cost of waves",
        builds_on=("stream_k",),
        mma="wgmma",
        grid=_SCHEDULED,
        limits=CHOOSES,
        general=True,
    ),
    Technique(
        "grouped",
        "hopper",
        "one launch for groups of rows, each with a B of its own: blocks walk the tiles of all groups",
        builds_on=("trailing_store",),
        builds_on_in={"triton": "square_waves", "gluon": "square_waves"},
        mma="wgmma",
        limits=GROUPS,
        general=True,
    ),
)
