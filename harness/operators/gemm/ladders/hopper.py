"""The ladder `hopper`: wgmma, and what keeps it fed. Plain data, standard library only."""

from __future__ import annotations

from harness.catalog.entries import Ladder, Technique, Tile
from harness.operators.gemm.limits import PINGPONG, STAGED, WARPGROUPS, WHOLE_TILES

LADDER = Ladder(
    "hopper",
    "Hopper: wgmma, TMA, registers moved between warpgroups",
    archs=("sm_90a",),
    capabilities=(9,),
    operator="gemm",
)

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
        "two warpgroups multiply, 64 rows by 256 columns each: the other one's products fill a wait",
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
        "cluster_multicast",
        "hopper",
        "two blocks of a cluster share B: each loads half, which multicast delivers to both",
        builds_on=("tma_store_epilogue",),
        mma="wgmma",
        limits=STAGED,
        general=True,
    ),
    Technique(
        "tile_192",
        "hopper",
        "tiles of 128 x 192: the last wave is fuller at some sizes",
        builds_on=("cluster_multicast",),
        also=("tile",),
        mma="wgmma",
        tile={0: Tile(128, 192, 4, 8)},
        limits=STAGED,
        general=True,
    ),
)
