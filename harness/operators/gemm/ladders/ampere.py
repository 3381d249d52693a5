"""The ladder `ampere`: one multiply-add at a time, up to mma.sync with cp.async. Plain data, standard library only."""

from harness.catalog.entries import Ladder, Technique, Tile
from harness.operators.gemm.limits import (
    EIGHT_BY_EIGHT,
    K_CONTIGUOUS,
    MMA,
    ONE_ELEMENT,
    ONE_PRODUCT,
    ONE_STAGE,
    PLAIN,
    POWER_OF_TWO,
    RING,
)

LADDER = Ladder(
    "ampere",
    "Ampere: scalar FMA up to mma.sync with cp.async",
    archs=("sm_80", "sm_90a"),
    capabilities=(8, 9),
    operator="gemm",
)

TECHNIQUES = LADDER.rungs(
    Technique(
        "scalar",
        "one thread for each element of C, every factor from global memory",
        mma="fma",
        tile={0: Tile(32, 32, 1, 32)},
        limits=(ONE_PRODUCT, K_CONTIGUOUS, POWER_OF_TWO, ONE_ELEMENT),
        general=True,
    ),
    Technique(
        "block_tiled",
        "tiles of A and B pass through shared memory, where a block's threads share them",
        builds_on=("scalar",),
        also=("block_k",),
        mma="fma",
        tile={0: Tile(32, 32, 1, 32, (("block_k", 32),))},
        limits=(*PLAIN, ONE_STAGE, ONE_ELEMENT),
    ),
    Technique(
        "register_tiled",
        "a thread has 8 x 8 elements of C and keeps 16 factors in registers",
        builds_on=("block_tiled",),
        also=("tile",),
        mma="fma",
        tile={0: Tile(128, 128, 1, 8, (("block_k", 16),))},
        grid={"triton": Tile.grid((64, 128), (64, 128), (1,), (4, 8))},
        limits=(*PLAIN, ONE_STAGE, EIGHT_BY_EIGHT),
    ),
    Technique(
        "vectorized_loads",
        "16-byte accesses to global and to shared memory, where tiles lie transposed and in fp32",
        builds_on=("register_tiled",),
        mma="fma",
    ),
    Technique(
        "mma_ldmatrix",
        "products by mma.sync, fed by ldmatrix; rows are not swizzled",
        builds_on=("vectorized_loads",),
        also=("tile",),
        tile={0: Tile(128, 128, 1, 8)},
        grid={
            "cuda": Tile.grid((64, 128, 256), (64, 128, 256), (1,), (4, 8)),
            "triton": Tile.grid((64, 128), (64, 128, 256), (1,), (4, 8)),
        },
        limits=(*MMA, ONE_STAGE),
    ),
    Technique(
        "xor_swizzle",
        "shared-memory columns permuted by XOR with the row: ldmatrix without bank conflicts",
        builds_on=("mma_ldmatrix",),
    ),
    Technique(
        "cp_async_pipeline",
        "asynchronous copies into a ring of buffers: tiles are on their way while others are multiplied",
        builds_on=("xor_swizzle",),
        also=("stages",),
        tile={0: Tile(128, 128, 3, 8)},
        grid={
            "cuda": Tile.grid((64, 128), (64, 128, 256), (2, 3, 4), (4, 8)),
            "triton": Tile.grid((64, 128), (64, 128, 256), (2, 3, 4), (4, 8)),
        },
        limits=(*MMA, RING),
    ),
    Technique(
        "l2_grid_order",
        "blocks go down groups of eight rows of tiles, so that those that run together share A and B in L2",
        builds_on=("cp_async_pipeline",),
    ),
)
