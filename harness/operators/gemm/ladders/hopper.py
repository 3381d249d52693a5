"""The ladder `hopper`: wgmma, and what keeps it fed. Plain data, standard library only."""

from harness.catalog.entries import Ladder, Technique, Tile
from harness.operators.gemm import schedules
from harness.operators.gemm.limits import (
    COLUMNS_320,
    EITHER_MAJOR,
    GROUPS,
    PAIRS,
    PINGPONG,
    SMALL_M,
    STAGED,
    STORED_BY_TURNS,
    TWO_TENSORS,
    WARPGROUPS,
    WHOLE_TILES,
)

LADDER = Ladder(
    "hopper",
    "Hopper: wgmma, TMA, registers moved between warpgroups",
    archs=("sm_90a",),
    capabilities=(9,),
    operator="gemm",
    every={"mma": "wgmma", "general": True},
)

OF_WHOLE_TILES = LADDER.rungs(
    Technique(
        "wgmma",
        "a warpgroup multiplies 64 rows by all columns of the tile, straight from shared memory",
        builds_on=("l2_grid_order",),
        also=("tile",),
        tile={0: Tile(128, 128, 3, 4)},
        grid={
            "cuda": Tile.grid((64, 128), (64, 128, 192, 256), (2, 3, 4), (4, 8)),
            "triton": Tile.grid((64, 128), (64, 128, 256), (2, 3, 4), (4, 8)),
        },
        limits=(WHOLE_TILES, *WARPGROUPS),
    ),
    general=False,
)

TECHNIQUES = OF_WHOLE_TILES + LADDER.rungs(
    Technique(
        "tma_swizzle",
        "tiles come by TMA, swizzled: one thread asks for a whole box",
        builds_on=("wgmma",),
        limits=WARPGROUPS,
    ),
    Technique(
        "mbarrier_ring",
        "full and empty mbarriers in place of the block's barrier: warps drift apart",
        builds_on=("tma_swizzle",),
    ),
    Technique(
        "producer_consumer",
        "one thread loads ahead of the warpgroup that multiplies, which gets the producer's registers",
        builds_on=("mbarrier_ring",),
        also=("stages",),
        tile={0: Tile(128, 128, 5, 4)},
        grid={
            "cuda": Tile.grid((64, 128), (128, 192, 256), (3, 4, 5, 6), (4, 8)),
            "gluon": Tile.grid((64, 128, 256), (64, 128, 256), (3, 4, 5, 6), (4, 8)),
        },
    ),
    Technique(
        "evict_first",
        "few rows read B once: L2 is told to evict it first, and need not write back what others left",
        builds_on=("producer_consumer",),
        builds_on_in={"triton": "tma_swizzle"},
    ),
    Technique(
        "two_consumers",
        "two warpgroups multiply, 64 rows by 256 columns each: while one waits, the other one's products run",
        builds_on=("producer_consumer",),
        also=("tile",),
        tile={0: Tile(128, 256, 3, 8)},
    ),
    Technique(
        "persistent",
        "a block works on tile after tile: the next one loads during the epilogue",
        builds_on=("two_consumers",),
        builds_on_in={"triton": "tma_swizzle"},
        grid={
            "triton": (
                *Tile.grid((128,), (256,), (3, 4), (8,)),
                *Tile.grid((256,), (128,), (3, 4), (8,)),
                *Tile.grid((128,), (128,), (4, 5, 6), (4, 8)),
                *Tile.grid((64,), (128, 256), (4,), (4,)),
            )
        },
    ),
    Technique(
        "either_major",
        "m may be contiguous in A and n in B: TMA loads them as they lie, and wgmma transposes what it reads",
        builds_on=("persistent",),
        limits=EITHER_MAJOR,
    ),
    Technique(
        "pingpong",
        "two warpgroups have a tile each: one multiplies while the other one writes C",
        builds_on=("persistent",),
        also=("tile",),
        tile={0: Tile(128, 128, 6, 8)},
        grid={"cuda": Tile.grid((128,), (64, 128), (4, 5, 6), (8,))},
        limits=PINGPONG,
    ),
    Technique(
        "pingpong_store",
        "ping-pong whose warpgroups write C by TMA: 128 bytes of a row at a time, and no shuffles",
        builds_on=("pingpong",),
        builds_on_in={"triton": "tma_store_epilogue"},
        limits=STORED_BY_TURNS,
    ),
    Technique(
        "evict_c_first",
        "C is written once: L2 is told to evict it first, and keeps A and B for later waves",
        builds_on=("pingpong_store",),
    ),
    Technique(
        "tma_store_epilogue",
        "C leaves by TMA from shared memory while the next tile is multiplied",
        builds_on=("persistent",),
        also=("stages",),
        tile={0: Tile(128, 256, 4, 8)},
        grid={"cuda": Tile.grid((128,), (128, 192, 256), (3, 4, 5, 6), (4, 8))},
        limits=STAGED,
    ),
    Technique(
        "square_waves",
        "tiles are taken in groups so high that those of one wave cover a square of C",
        builds_on=("tma_store_epilogue",),
    ),
    Technique(
        "hilbert_order",
        "tiles are taken along a Hilbert curve: those in flight are neighbours, whatever the shape of C",
        builds_on=("tma_store_epilogue",),
    ),
    Technique(
        "trailing_store",
        "C of a tile is packed to 16 bits and stored under the products of the next one",
        builds_on=("square_waves",),
    ),
    Technique(
        "overlapped_index",
        "a tile's place in C and the next buffer of the ring are found while products run",
        builds_on=("trailing_store",),
    ),
    Technique(
        "columns_320",
        "tiles of 128 x 320, two wgmma a step: fewer bytes for a product, and a fuller last wave at some sizes",
        builds_on=("square_waves",),
        builds_on_in={"triton": "tile_192", "gluon": "tile_192"},
        also=("tile",),
        tile={0: Tile(128, 320, 3, 8)},
        limits=COLUMNS_320,
    ),
    Technique(
        "cluster_multicast",
        "two blocks of a cluster share B: each loads half, which multicast delivers to both",
        builds_on=("tma_store_epilogue",),
        builds_on_in={"gluon": "persistent"},
        limits=(*STAGED, *PAIRS),
    ),
    Technique(
        "tile_192",
        "tiles of 128 x 192: the last wave is fuller at some sizes",
        builds_on=("cluster_multicast",),
        builds_on_in={"triton": "square_waves", "gluon": "square_waves"},
        also=("tile",),
        tile={0: Tile(128, 192, 5, 8)},
        limits=TWO_TENSORS,
    ),
    Technique(
        "split_k",
        "blocks of a cluster share a tile of C: each has a part of k, and they add up in shared memory",
        builds_on=("two_consumers",),
        builds_on_in={"triton": "tma_swizzle"},
        also=("stages",),
        tile={0: Tile(128, 256, 4, 8)},
        grid={"triton": (*Tile.grid((64, 128), (128,), (4, 5, 6), (4,)), *Tile.grid((128,), (256,), (3, 4), (8,)))},
    ),
    Technique(
        "small_m",
        "operands change places: rows of B fill wgmma's 64 rows, and the few rows of A are its columns",
        builds_on=("split_k",),
        also=("tile",),
        tile={0: Tile(64, 128, 8, 8)},
        grid={
            "cuda": Tile.grid((16, 32, 64, 128), (64, 128), (6, 8, 10), (4, 8)),
            "triton": Tile.grid((16, 64), (64, 128), (6, 8), (4, 8)),
            "gluon": Tile.grid((16, 32, 64, 128), (64, 128), (6, 8, 10), (4, 8)),
        },
        limits=SMALL_M,
    ),
    Technique(
        "stream_k",
        "clusters share the steps of some tiles evenly, where whole tiles would leave the last wave empty",
        builds_on=("cluster_multicast",),
        builds_on_in={"triton": "tma_store_epilogue", "gluon": "tma_store_epilogue"},
        limits=STAGED,
        shows="Work work(params",
    ),
    Technique(
        "flagship",
        "a tuned tile names the kernel of the ladder; else the host chooses by the cost of waves",
        builds_on=("stream_k",),
        grid=schedules.GRID,
        limits=schedules.CHOOSES,
    ),
    Technique(
        "grouped",
        "one launch for groups of rows, each with a B of its own: blocks walk the tiles of all groups",
        builds_on=("trailing_store",),
        builds_on_in={"triton": "square_waves", "gluon": "square_waves"},
        limits=GROUPS,
    ),
)
