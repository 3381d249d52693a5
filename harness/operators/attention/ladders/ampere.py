"""The ladder `ampere`: scalar FMA up to mma.sync fed by cp.async. Plain data, standard library only."""

from harness.catalog.entries import Ladder, Limit, Technique, Tile
from harness.operators.attention.limits import (
    ANY_GRID,
    BATCHED,
    GENERAL,
    HEADS_IN_GRID,
    M_TILES,
    MMA,
    ONE_STAGE,
    PLAIN,
    ROWS,
    THREAD_MAP,
)

LADDER = Ladder(
    "ampere",
    "Ampere: scalar FMA up to mma.sync with cp.async",
    archs=("sm_80", "sm_90a", "sm_120a"),
    capabilities=(8, 9, 12),
    operator="attention",
)

WGMMA_TILES = (*Tile.grid((128,), (64, 128), (1, 2, 3), (4, 8)), *Tile.grid((64,), (64, 128), (1, 2, 3), (4,)))
"""Tiles with which wgmma keeps up with the tensor cores: 64 rows a warpgroup, a deep pipeline."""
SQUARE = {64: Tile(64, 64), 128: Tile(64, 64)}
TALL = {64: Tile(128, 64), 128: Tile(128, 64)}

TECHNIQUES = LADDER.rungs(
    Technique(
        "scalar",
        "tiled FlashAttention-2 with online softmax on fp32 FMA, no tensor cores",
        mma="fma",
        tile=SQUARE,
        grid={
            "cuda": (Tile(64, 64), Tile(64, 32)),
            "triton": Tile.grid((32, 64), (16, 32), (1,), (4, 8)),
        },
        limits=(*PLAIN, ONE_STAGE, THREAD_MAP),
    ),
    Technique(
        "vectorized_loads",
        "16-byte accesses to global and shared memory",
        builds_on=("scalar",),
        mma="fma",
    ),
    Technique(
        "wmma",
        "tensor cores by nvcuda::wmma; the fragment layout is opaque, so scores and O pass through shared memory",
        builds_on=("vectorized_loads", "scalar"),
        builds_on_in={"triton": "scalar"},
        grid={
            "cuda": (Tile(64, 32), Tile(64, 64)),
            "triton": Tile.grid((64, 128), (32, 64, 128), (1,), (4, 8)),
        },
        limits=(
            *PLAIN,
            ROWS,
            ONE_STAGE,
            Limit("cuda", "block_n must be 32 or 64", lambda problem, tile: tile.block_n not in (32, 64)),
        ),
    ),
    Technique(
        "mma_ldmatrix",
        "products by mma.sync, fed by ldmatrix; scores still pass through shared memory, rows are not swizzled",
        builds_on=("wmma", "vectorized_loads", "scalar"),
        grid={"cuda": tuple(Tile(m, n, 1, m // 16) for m in (64, 128) for n in (32, 64, 128))},
        limits=MMA,
    ),
    Technique(
        "register_softmax",
        "scores never leave registers: quad shuffles reduce rows, the C fragment of S is the A fragment of P",
        builds_on=("mma_ldmatrix",),
    ),
    Technique(
        "direct_rescale",
        "the new row max comes first, so exp(S - new_max) needs no second multiply",
        builds_on=("register_softmax",),
        grid={"gluon": Tile.grid((64, 128), (32, 64, 128), (1,), (4, 8))},
    ),
    Technique(
        "split_warp_pairs",
        "two warps share 16 query rows and exchange max and sum through shared memory",
        builds_on=("direct_rescale",),
        tile={64: Tile(64, 64, 1, 8), 128: Tile(64, 64, 1, 8)},
        limits=(
            *PLAIN,
            ONE_STAGE,
            Limit(
                "cuda",
                "a pair of warps owns 16 query rows: block_m must be 8 * warps; block_n a multiple of 16, at most 128",
                lambda problem, tile: tile.block_m != 8 * tile.warps or bool(tile.block_n % 16) or tile.block_n > 128,
            ),
        ),
    ),
    Technique(
        "padded_rows",
        "rows of shared memory 16 bytes further apart: the other cure for bank conflicts",
        builds_on=("direct_rescale",),
        shows="(HEAD_DIM + 8) * ELEMENT_BYTES",
    ),
    Technique(
        "xor_swizzle",
        "shared-memory columns permuted by XOR with the row: ldmatrix without bank conflicts",
        builds_on=("direct_rescale",),
    ),
    Technique(
        "large_tile",
        "the tile only: 128 keys an iteration instead of 64",
        builds_on=("xor_swizzle",),
        tile={64: Tile(64, 128), 128: Tile(64, 128)},
    ),
    Technique(
        "cp_async_pipeline",
        "copies by cp.async: V loads during Q K^T, the next K during P V",
        builds_on=("large_tile",),
        grid={"triton": (*Tile.grid((128,), (32, 64), (1, 2), (4, 8)), *Tile.grid((64,), (64, 128), (1, 2), (4,)))},
    ),
    Technique(
        "ldmatrix_x4",
        "one ldmatrix.x4 feeds two mma, for K and (with .trans) for V",
        builds_on=("cp_async_pipeline",),
    ),
    Technique(
        "exp2_softmax",
        "scale * log2(e) folded into one FFMA before MUFU.EX2",
        builds_on=("ldmatrix_x4",),
        grid={"triton": Tile.grid((128,), (32, 64), (1, 2, 3), (4, 8))},
    ),
    Technique(
        "batched_m_tiles",
        "each warp has two m16 tiles, which share its K and V fragments: 128 query rows, 64 keys",
        builds_on=("exp2_softmax",),
        tile=TALL,
        grid={"cuda": tuple(Tile(m, n) for m in (64, 128) for n in (32, 64, 128))},
        limits=BATCHED,
    ),
    Technique(
        "fragment_double_buffer",
        "the next ldmatrix is issued before this mma: published as a regression",
        builds_on=("batched_m_tiles",),
    ),
    Technique(
        "asymmetric_kv_buffers",
        "K double-buffered, V single-buffered, Q in registers and its shared memory reused",
        builds_on=("batched_m_tiles",),
        also=("tile",),
        tile={64: Tile(128, 64), 128: Tile(64, 64)},
        limits=(
            *BATCHED,
            Limit(
                "cuda",
                "Q lives in registers: head_dim * block_m / (16 * warps) must be at most 128",
                lambda problem, tile: problem.head_dim * tile.block_m > 128 * 16 * tile.warps,
            ),
        ),
    ),
    Technique(
        "l2_grid_order",
        "consecutive blocks share K and V: the grid walks the query tiles of a head first",
        builds_on=("batched_m_tiles",),
        limits=(*ANY_GRID, *M_TILES, HEADS_IN_GRID),
    ),
    Technique(
        "staged_epilogue",
        "O through shared memory, stored 16 bytes a lane",
        builds_on=("l2_grid_order",),
    ),
    Technique(
        "longest_first",
        "causal blocks with the most keys start first, in sections of heads whose K and V fit in L2",
        builds_on=("staged_epilogue",),
        limits=(*ANY_GRID, *M_TILES),
    ),
    Technique(
        "conditional_rescale",
        "O is rescaled only when some row max of the warp grew",
        builds_on=("longest_first",),
    ),
    Technique(
        "general_shapes",
        "any lengths and strides: rows that do not exist are read as zeros, masked, and not written",
        builds_on=("longest_first",),
        tile={256: Tile(64, 64)},
        limits=(*GENERAL, ONE_STAGE),
        general=True,
    ),
    Technique(
        "lean_instructions",
        "constant strides, keys walked backwards, masks for the first tiles only: nothing but what attention needs",
        builds_on=("general_shapes",),
        grid={
            "triton": (*Tile.grid((128,), (32, 64), (1, 2, 3), (4, 8)), Tile(64, 64, 2), Tile(64, 128)),
            "triton_native": WGMMA_TILES,
        },
        general=True,
        constant_strides=True,
    ),
)
