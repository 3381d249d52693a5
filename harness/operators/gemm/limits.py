"""Why a backend declines a cell: the limits that several techniques share. Standard library only."""

from harness.catalog.entries import Limit, Tile, in_gluon
from harness.operators.gemm.arguments import block_k

SHARED_MEMORY_BYTES = 227 * 1024
"""Bytes that a block can ask for on compute capability 9.0."""


def buffers(tile: Tile) -> int:
    """Bytes of the rings of A and B, 1024 for their barriers and where the buffer must start."""
    return 2 * tile.stages * (tile.block_m + tile.block_n) * block_k(tile) + 1024


WHOLE_TILES = Limit(
    "*",
    "m, n and k must be multiples of the tile (a rung marked general takes any)",
    lambda problem, tile: bool(problem.m % tile.block_m or problem.n % tile.block_n or problem.k % block_k(tile)),
)
ONE_PRODUCT = Limit(
    "*", "it multiplies by one B: a problem may have no groups", lambda problem, tile: problem.groups > 1
)
K_CONTIGUOUS = Limit(
    "*",
    "it reads A and B with k contiguous: the problem may name no other dimension",
    lambda problem, tile: problem.contiguous != "kk",
)
POWER_OF_TWO = Limit(
    "triton",
    "Triton's tensors have powers of two for sizes: block_m, block_n and block_k must be such",
    lambda problem, tile: any(size & size - 1 for size in (tile.block_m, tile.block_n, block_k(tile))),
)
ONE_STAGE = Limit("cuda", "A and B have one buffer each: stages must be 1", lambda problem, tile: tile.stages != 1)
RING = Limit(
    "cuda", "A and B have a ring of buffers each: stages must be 2 or more", lambda problem, tile: tile.stages < 2
)
ONE_ELEMENT = Limit(
    "cuda",
    "a thread has one element of C: block_m * block_n must be 32 * warps",
    lambda problem, tile: tile.block_m * tile.block_n != 32 * tile.warps,
)
EIGHT_BY_EIGHT = Limit(
    "cuda",
    "a thread has 8 x 8 elements of C: block_m * block_n must be 2048 * warps",
    lambda problem, tile: tile.block_m * tile.block_n != 2048 * tile.warps,
)
WARP_GRID = Limit(
    "cuda",
    "warps are two rows of at least two, each with whole fragments: warps must be even, 4 or more, block_m a multiple "
    "of 32 and block_n of 8 * warps",
    lambda problem, tile: bool(
        tile.warps % 2 or tile.warps < 4 or tile.block_m % 32 or tile.block_n % (8 * tile.warps)
    ),
)
ROW_OF_128_BYTES = Limit(
    "cuda",
    "a row of a tile has the 128 bytes of a swizzle: block_k must be 64",
    lambda problem, tile: block_k(tile) != 64,
)
SHARED_MEMORY = Limit(
    "cuda",
    f"the rings of A and B must fit the {SHARED_MEMORY_BYTES} bytes of shared memory of a block",
    lambda problem, tile: buffers(tile) > SHARED_MEMORY_BYTES,
)
WIDTHS = (64, 128, 192, 256)
WARPGROUP_TILES = Limit(
    "cuda",
    "one or two warpgroups multiply, each whole 64 rows by all columns, in the registers of a thread: warps must be 4 "
    f"or 8, block_m a multiple of 16 * warps, block_n one of {', '.join(map(str, WIDTHS))}, and block_m * block_n at "
    "most 4096 * warps",
    lambda problem, tile: (
        tile.warps not in (4, 8)
        or bool(tile.block_m % (16 * tile.warps))
        or tile.block_n not in WIDTHS
        or tile.block_m * tile.block_n > 4096 * tile.warps
    ),
)


PLAIN = (ONE_PRODUCT, K_CONTIGUOUS, WHOLE_TILES, POWER_OF_TWO)
MMA = (*PLAIN, WARP_GRID, ROW_OF_128_BYTES)
_RINGS = (ROW_OF_128_BYTES, RING, SHARED_MEMORY)
_OF_WARPGROUPS = (WARPGROUP_TILES, *_RINGS)
WARPGROUPS = (
    ONE_PRODUCT,
    K_CONTIGUOUS,
    POWER_OF_TWO,
    *_OF_WARPGROUPS,
    *in_gluon(*_OF_WARPGROUPS),
)
"""Of rungs that load by TMA, which take any m, and any n and k that are multiples of 8."""
EITHER_MAJOR = tuple(limit for limit in WARPGROUPS if limit is not K_CONTIGUOUS)
"""Of rungs that take A and B with either dimension contiguous."""
_TILE_EACH = Limit(
    "cuda",
    "two warpgroups have a tile each, in the registers of their threads: warps must be 8, and block_m * block_n at "
    "most 3072 * warps",
    lambda problem, tile: tile.warps != 8 or tile.block_m * tile.block_n > 3072 * tile.warps,
)
PINGPONG = (*WARPGROUPS, _TILE_EACH, *in_gluon(_TILE_EACH))
BOX_OF_C = Limit(
    "gluon",
    "beside the rings of A and B each of two warpgroups needs a box of C, 128 bytes of each of its rows",
    lambda problem, tile: buffers(tile) + 2 * tile.block_m * 128 > SHARED_MEMORY_BYTES,
)
_C_BESIDE_RINGS = Limit(
    "cuda",
    "beside the rings of A and B each warp needs 2048 bytes of shared memory to stage C",
    lambda problem, tile: buffers(tile) + tile.warps * 2048 > SHARED_MEMORY_BYTES,
)
STORED_BY_TURNS = (*PINGPONG, _C_BESIDE_RINGS, BOX_OF_C)
"""Of pingpong_store, in Gluon too (triton_kernels/gemm/gluon_pingpong.py)."""
_C_STAGED = (_C_BESIDE_RINGS, *in_gluon(_C_BESIDE_RINGS))
STAGED = (*WARPGROUPS, *_C_STAGED)
"""Of rungs that store C by TMA."""
GROUPS = tuple(limit for limit in STAGED if limit is not ONE_PRODUCT)
"""Of rungs that take groups too."""
PAIRS = tuple(
    Limit(
        f"gluon@{version}",
        "Gluon has multicast from 3.7 on, and a barrier that counts the arrivals of two blocks from 3.8 on: this needs "
        "a newer Triton",
        lambda problem, tile: True,
    )
    for version in ("3.6.0", "3.7.1")
)
"""Of rungs whose blocks share what they load."""
_FEW_ROWS = Limit(
    "cuda",
    "a warpgroup has 64 columns of C and all rows of the tile: block_n must be 16 * warps, block_m 16, 32, 64 or 128, "
    "and warps 4 or 8",
    lambda problem, tile: (
        tile.block_n != 16 * tile.warps or tile.block_m not in (16, 32, 64, 128) or tile.warps not in (4, 8)
    ),
)
SMALL_M = (ONE_PRODUCT, K_CONTIGUOUS, POWER_OF_TWO, _FEW_ROWS, *_RINGS, *in_gluon(_FEW_ROWS, *_RINGS))
"""Of rungs that multiply B by A."""
TWO_TENSORS = (
    ONE_PRODUCT,
    K_CONTIGUOUS,
    Limit(
        "triton",
        "the columns of a tile are in two tensors, whose sizes are powers of two: block_n must be 192 or 320, and "
        "block_m and block_k powers of two",
        lambda problem, tile: (
            tile.block_n not in (192, 320) or any(size & size - 1 for size in (tile.block_m, block_k(tile)))
        ),
    ),
    *_OF_WARPGROUPS,
    Limit(
        "gluon",
        "one or two warpgroups multiply, in the registers of their threads: warps must be 4 or 8, block_m a "
        "multiple of 16 * warps, and block_m * block_n at most 6144 * warps",
        lambda problem, tile: (
            tile.warps not in (4, 8)
            or bool(tile.block_m % (16 * tile.warps))
            or tile.block_m * tile.block_n > 6144 * tile.warps
        ),
    ),
    *in_gluon(*_RINGS),
    *_C_STAGED,
)
"""Of tile_192: as STAGED, but for the columns of a tile in core Triton and Gluon."""
COLUMNS_320 = (
    Limit(
        "cuda",
        "a warpgroup multiplies 64 rows by 192 and by 128 columns: warps must be 4 or 8, block_m 16 * warps, and "
        "block_n 320",
        lambda problem, tile: tile.warps not in (4, 8) or tile.block_m != 16 * tile.warps or tile.block_n != 320,
    ),
    *(limit for limit in TWO_TENSORS if limit is not WARPGROUP_TILES),
)
"""Of columns_320: as TWO_TENSORS, but for the columns of a tile in CUDA."""
