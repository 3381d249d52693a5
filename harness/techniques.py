"""The registry: every ladder and every technique, in order. Plain data, standard library only.

Adding a technique touches three files: cuda_kernels/<ladder>/<name>.cu, triton_kernels/<ladder>/<name>.py and one
entry here. The name is the file stem, the kernel symbol and the label in every plot.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product

from harness.problem import Problem, Tile

TWINS = ("cuda", "triton", "triton_native")
"""Series of one technique. triton_native is the Triton source without DISABLE_MMA_V3, so that it may use wgmma."""

SERIES = (*TWINS, "gluon")
"""The same, and Gluon's, which is there where core Triton has no lever: triton_kernels/gluon/<name>.py."""

LANGUAGES = ("cuda", "triton", "gluon")
"""One series of each: what a tool looks at that does not ask which instructions a source may become."""

CAPABILITY = {"sm_80": (8, 0), "sm_90a": (9, 0), "sm_120a": (12, 0)}
"""Compute capability of each architecture that the project compiles for."""


@dataclass(frozen=True)
class Limit:
    """Why a backend declines a cell: `applies(problem, tile)` true means status unsupported with this reason.

    `backend` "triton" holds for triton_native and gluon too, "*" for all.
    """

    backend: str
    reason: str
    applies: Callable[[Problem, Tile], bool]


@dataclass(frozen=True)
class Ladder:
    """Techniques that share an instruction set. `archs`: what both twins are compiled for and inspected on."""

    name: str
    title: str
    archs: tuple[str, ...]
    capabilities: tuple[int, ...]
    """Major compute capabilities that run it."""


@dataclass(frozen=True)
class Technique:
    """One rung.

    `builds_on` is the ladder's parent followed by older ancestors, nearest first: the first one that exists here is
    the parent (a rung may land before its parent). `tile` is given per head_dim where the tile is the change, and
    inherited otherwise. `mma` is the instruction class, the same for both twins: fma, mma_sync or wgmma.
    """

    name: str
    ladder: str
    idea: str
    builds_on: tuple[str, ...] = ()
    mma: str = "mma_sync"
    tile: dict[int, Tile] = field(default_factory=dict)
    grid: dict[str, tuple[Tile, ...]] = field(default_factory=dict)
    """Tiles that `tune` tries beside the reference tile, by language; a grid not given is inherited. "triton_native"
    has what this series tries beyond those of "triton"."""
    limits: tuple[Limit, ...] = ()
    general: bool = False
    """Takes any length, stride and head_dim 64, 128 and 256."""
    constant_strides: bool = False
    """The CUDA kernel is built for the row strides of packed tensors; others take a build of their own."""
    seeds: tuple[str, ...] = ()
    """Articles and steps that describe it."""

    @property
    def path(self) -> str:
        """ladder/name: the stem of both twins below cuda_kernels/ and triton_kernels/."""
        return f"{self.ladder}/{self.name}"


LADDERS = {
    "ampere": Ladder(
        "ampere",
        "Ampere: scalar FMA up to mma.sync with cp.async",
        archs=("sm_80", "sm_90a", "sm_120a"),
        capabilities=(8, 9, 12),
    ),
    "tma": Ladder(
        "tma",
        "TMA: mma.sync fed by bulk tensor copies and mbarriers",
        archs=("sm_90a", "sm_120a"),
        capabilities=(9, 12),
    ),
}


def _tiles(block_m: tuple[int, ...], block_n: tuple[int, ...], stages: tuple[int, ...], warps: tuple[int, ...]):
    return tuple(Tile(*cell) for cell in product(block_m, block_n, stages, warps))


_RAGGED = Limit(
    "*",
    "lengths must be multiples of the tile (a rung marked general takes any length)",
    lambda problem, tile: bool(problem.seq_q % tile.block_m or problem.seq_kv % tile.block_n),
)
_HEAD_DIM = Limit(
    "*",
    "head_dim must be 64 or 128 (a rung marked general takes 256)",
    lambda problem, tile: problem.head_dim not in (64, 128),
)
_GENERAL_HEAD_DIM = Limit(
    "*",
    "head_dim must be 64, 128 or 256",
    lambda problem, tile: problem.head_dim not in (64, 128, 256),
)
_ROWS = Limit(
    "cuda",
    "each warp owns 16 query rows: block_m must be 16 * warps",
    lambda problem, tile: tile.block_m != 16 * tile.warps,
)
_TWO_M_TILES = Limit(
    "cuda",
    "each warp owns one or two m16 tiles: block_m must be 16 or 32 * warps",
    lambda problem, tile: tile.block_m not in (16 * tile.warps, 32 * tile.warps),
)
_COLUMNS = Limit(
    "cuda",
    "block_n must be a multiple of 16, at most 128",
    lambda problem, tile: bool(tile.block_n % 16) or tile.block_n > 128,
)
_ONE_STAGE = Limit(
    "cuda",
    "K and V have one buffer each: stages must be 1",
    lambda problem, tile: tile.stages != 1,
)
_RING = Limit(
    "cuda",
    "K and V have a ring of buffers each: stages must be 2 or more",
    lambda problem, tile: tile.stages < 2,
)
_POWER_OF_TWO = Limit(
    "triton",
    "Triton's tensors have powers of two for sizes: block_m and block_n must be such",
    lambda problem, tile: bool(tile.block_m & tile.block_m - 1 or tile.block_n & tile.block_n - 1),
)
_GLUON_ROWS = Limit(
    "gluon",
    "each warp owns one or more m16 tiles: block_m must be a multiple of 16 * warps",
    lambda problem, tile: bool(tile.block_m % (16 * tile.warps)),
)
_GLUON_STAGE = Limit("gluon", _ONE_STAGE.reason, _ONE_STAGE.applies)
_PLAIN = (_RAGGED, _HEAD_DIM, _POWER_OF_TWO)
_MMA = (*_PLAIN, _ROWS, _COLUMNS, _ONE_STAGE, _GLUON_ROWS, _GLUON_STAGE)
_BATCHED = (*_PLAIN, _TWO_M_TILES, _COLUMNS, _ONE_STAGE)
_GENERAL = (_GENERAL_HEAD_DIM, _POWER_OF_TWO, _TWO_M_TILES, _COLUMNS)
_TWO_WARPGROUPS = Limit("cuda", "two consumer warpgroups: warps must be 8", lambda problem, tile: tile.warps != 8)
_THREAD_MAP = Limit(
    "cuda",
    "the thread map is 8 x 16 threads: block_m 64, block_n 32 or 64, 4 warps",
    lambda problem, tile: (tile.block_m, tile.warps) != (64, 4) or tile.block_n not in (32, 64),
)

_WGMMA = (*_tiles((128,), (64, 128), (1, 2, 3), (4, 8)), *_tiles((64,), (64, 128), (1, 2, 3), (4,)))
"""Tiles with which wgmma keeps up with the tensor cores: 64 rows a warpgroup, a deep pipeline."""
_SQUARE = {64: Tile(64, 64), 128: Tile(64, 64)}
_TALL = {64: Tile(128, 64), 128: Tile(128, 64)}

TECHNIQUES = (
    Technique(
        "scalar",
        "ampere",
        "tiled FlashAttention-2 with online softmax on fp32 FMA, no tensor cores",
        mma="fma",
        tile=_SQUARE,
        grid={
            "cuda": (Tile(64, 64), Tile(64, 32)),
            "triton": _tiles((32, 64), (16, 32), (1,), (4, 8)),
        },
        limits=(*_PLAIN, _ONE_STAGE, _THREAD_MAP),
        seeds=("000 step 1", "003 v1"),
    ),
    Technique(
        "vectorized_loads",
        "ampere",
        "16-byte accesses to global and shared memory",
        builds_on=("scalar",),
        mma="fma",
        limits=(*_PLAIN, _ONE_STAGE, _THREAD_MAP),
        seeds=("000 step 2", "003 v6"),
    ),
    Technique(
        "wmma",
        "ampere",
        "tensor cores by nvcuda::wmma; the fragment layout is opaque, so scores and O pass through shared memory",
        builds_on=("vectorized_loads", "scalar"),
        grid={
            "cuda": (Tile(64, 32), Tile(64, 64)),
            "triton": _tiles((64, 128), (32, 64, 128), (1,), (4, 8)),
        },
        limits=(
            *_PLAIN,
            _ROWS,
            _ONE_STAGE,
            Limit("cuda", "block_n must be 32 or 64", lambda problem, tile: tile.block_n not in (32, 64)),
        ),
        seeds=("003 v3",),
    ),
    Technique(
        "mma_ldmatrix",
        "ampere",
        "mma.sync fed by ldmatrix; scores still pass through shared memory, rows are not swizzled",
        builds_on=("wmma", "vectorized_loads", "scalar"),
        grid={"cuda": tuple(Tile(m, n, 1, m // 16) for m in (64, 128) for n in (32, 64, 128))},
        limits=_MMA,
        seeds=("000 step 3", "001 k01", "002 v1", "003 v7", "004 k1"),
    ),
    Technique(
        "register_softmax",
        "ampere",
        "scores never leave registers: quad shuffles reduce rows, the C fragment of S is the A fragment of P",
        builds_on=("mma_ldmatrix",),
        limits=_MMA,
        seeds=("001", "003 v8", "004"),
    ),
    Technique(
        "direct_rescale",
        "ampere",
        "the new row max comes first, so exp(S - new_max) needs no second multiply",
        builds_on=("register_softmax",),
        grid={"gluon": _tiles((64, 128), (32, 64, 128), (1,), (4, 8))},
        limits=_MMA,
        seeds=("000", "001", "003 v9"),
    ),
    Technique(
        "split_warp_pairs",
        "ampere",
        "two warps share 16 query rows and exchange max and sum through shared memory",
        builds_on=("direct_rescale",),
        tile={64: Tile(64, 64, 1, 8), 128: Tile(64, 64, 1, 8)},
        limits=(
            *_PLAIN,
            _ONE_STAGE,
            Limit(
                "cuda",
                "a pair of warps owns 16 query rows: block_m must be 8 * warps; block_n a multiple of 16, at most 128",
                lambda problem, tile: tile.block_m != 8 * tile.warps or bool(tile.block_n % 16) or tile.block_n > 128,
            ),
        ),
        seeds=("000", "003"),
    ),
    Technique(
        "padded_rows",
        "ampere",
        "rows of shared memory 16 bytes further apart: the other cure for bank conflicts",
        builds_on=("direct_rescale",),
        limits=_MMA,
        seeds=("003",),
    ),
    Technique(
        "xor_swizzle",
        "ampere",
        "shared-memory columns permuted by XOR with the row: ldmatrix without bank conflicts",
        builds_on=("direct_rescale",),
        limits=_MMA,
        seeds=("000 step 5", "001 k02", "002 v2"),
    ),
    Technique(
        "large_tile",
        "ampere",
        "the tile only: 128 keys a step instead of 64",
        builds_on=("xor_swizzle",),
        tile={64: Tile(64, 128), 128: Tile(64, 128)},
        limits=_MMA,
        seeds=("001 k02",),
    ),
    Technique(
        "cp_async_pipeline",
        "ampere",
        "cp.async: V loads under Q K^T, the next K loads under P V",
        builds_on=("large_tile",),
        grid={"triton": (*_tiles((128,), (32, 64), (1, 2), (4, 8)), *_tiles((64,), (64, 128), (1, 2), (4,)))},
        limits=_MMA,
        seeds=("000 step 6", "001 k03", "002 v3", "004"),
    ),
    Technique(
        "ldmatrix_x4",
        "ampere",
        "one ldmatrix.x4 feeds two mma, for K and (with .trans) for V",
        builds_on=("cp_async_pipeline",),
        limits=_MMA,
        seeds=("001 k04", "002 v4"),
    ),
    Technique(
        "exp2_softmax",
        "ampere",
        "scale * log2(e) folded into one FFMA before MUFU.EX2",
        builds_on=("ldmatrix_x4",),
        grid={"triton": _tiles((128,), (32, 64), (1, 2, 3), (4, 8))},
        limits=_MMA,
        seeds=("001 k05",),
    ),
    Technique(
        "batched_m_tiles",
        "ampere",
        "two m16 tiles a warp use each K and V fragment: 128 query rows, 64 keys",
        builds_on=("exp2_softmax",),
        tile=_TALL,
        grid={"cuda": tuple(Tile(m, n) for m in (64, 128) for n in (32, 64, 128))},
        limits=_BATCHED,
        seeds=("001 k06",),
    ),
    Technique(
        "fragment_double_buffer",
        "ampere",
        "the next ldmatrix is issued before this mma: published as a regression",
        builds_on=("batched_m_tiles",),
        limits=_BATCHED,
        seeds=("001 k07", "004"),
    ),
    Technique(
        "asymmetric_kv_buffers",
        "ampere",
        "K double-buffered, V single-buffered, Q in registers and its shared memory reused (head_dim 128: tile too)",
        builds_on=("batched_m_tiles",),
        tile={64: Tile(128, 64), 128: Tile(64, 64)},
        limits=(
            *_BATCHED,
            Limit(
                "cuda",
                "Q lives in registers: head_dim * block_m / (16 * warps) must be at most 128",
                lambda problem, tile: problem.head_dim * tile.block_m > 128 * 16 * tile.warps,
            ),
        ),
        seeds=("002 v5",),
    ),
    Technique(
        "l2_grid_order",
        "ampere",
        "consecutive blocks share K and V: the grid walks the query tiles of a head first",
        builds_on=("batched_m_tiles",),
        limits=_BATCHED,
        seeds=("004",),
    ),
    Technique(
        "staged_epilogue",
        "ampere",
        "O through shared memory, stored 16 bytes a lane",
        builds_on=("l2_grid_order",),
        limits=_BATCHED,
        seeds=("000", "001", "004"),
    ),
    Technique(
        "longest_first",
        "ampere",
        "causal blocks with most keys start first, in sections of heads whose K and V fit in L2",
        builds_on=("staged_epilogue",),
        limits=_BATCHED,
    ),
    Technique(
        "conditional_rescale",
        "ampere",
        "O is rescaled only when some row max of the warp grew",
        builds_on=("longest_first",),
        limits=_BATCHED,
    ),
    Technique(
        "lean_instructions",
        "ampere",
        "constant strides, keys walked backwards, masks for the first tiles only: nothing but what attention needs",
        builds_on=("longest_first",),
        tile={**_TALL, 256: Tile(64, 64)},
        grid={
            "triton": (*_tiles((128,), (32, 64), (1, 2, 3), (4, 8)), Tile(64, 64, 2), Tile(64, 128)),
            "triton_native": _WGMMA,
        },
        limits=(*_GENERAL, _ONE_STAGE),
        general=True,
        constant_strides=True,
        seeds=("004",),
    ),
    Technique(
        "tma_loads",
        "tma",
        "cp.async.bulk.tensor: one thread asks for a tile, its bytes complete on an mbarrier",
        builds_on=("exp2_softmax", "ldmatrix_x4", "cp_async_pipeline"),
        grid={"triton": _tiles((64, 128), (64, 128), (1, 2), (4, 8)), "triton_native": _WGMMA},
        limits=_MMA,
        seeds=("000 step 4",),
    ),
    Technique(
        "tma_swizzle",
        "tma",
        "the 128-byte hardware swizzle; ldmatrix addresses follow it",
        builds_on=("tma_loads",),
        limits=_MMA,
        seeds=("000 step 5",),
    ),
    Technique(
        "mbarrier_ring",
        "tma",
        "full and empty mbarriers, two buffers of K and of V; no barrier of the whole block",
        builds_on=("tma_swizzle",),
        tile={64: Tile(64, 128, 2), 128: Tile(64, 128, 2)},
        grid={
            "cuda": tuple(Tile(m, n, 2, m // 16) for m in (64, 128) for n in (64, 128)),
        },
        limits=(*_PLAIN, _ROWS, _COLUMNS, _RING),
        seeds=("000 step 6",),
    ),
    Technique(
        "warp_specialized",
        "tma",
        "one producer warp, eight consumer warps",
        builds_on=("mbarrier_ring",),
        tile={64: Tile(128, 128, 2, 8), 128: Tile(128, 128, 2, 8)},
        grid={"triton": _tiles((128,), (64, 128), (2, 3), (8,)), "triton_native": ()},
        limits=(
            *_PLAIN,
            _ROWS,
            _COLUMNS,
            _RING,
            Limit(
                "triton_native",
                "Triton's own pass for warp specialization fails on sm_90 with four warps and wgmma: warps must be 8",
                lambda problem, tile: tile.warps == 4,
            ),
        ),
        seeds=("000 step 7",),
    ),
    Technique(
        "two_ctas_per_sm",
        "tma",
        "K and V by TMA into rings of buffers: no barrier of the whole block in the loop; two blocks fit, as before",
        builds_on=("lean_instructions", "mbarrier_ring"),
        tile={64: Tile(128, 128, 2), 128: Tile(128, 64, 2), 256: Tile(64, 32, 2)},
        grid={
            "cuda": (
                *(Tile(128, n, 2) for n in (48, 64, 80, 96, 112, 128)),
                *(Tile(64, n, 2) for n in (32, 64)),
                *(Tile(128, n, 3) for n in (48, 64)),
            ),
            "triton": (
                *_tiles((128,), (32, 64), (2, 3), (4,)),
                *_tiles((128,), (64, 128), (2,), (8,)),
                *_tiles((256,), (64,), (2, 3), (8,)),
                *(Tile(128, 64), Tile(64, 64, 2)),
            ),
            "triton_native": _WGMMA,
        },
        limits=(*_GENERAL, _RING),
        general=True,
    ),
    Technique(
        "lazy_rescale",
        "tma",
        "O is rescaled only when a row's max outgrew the one in use more than fourfold",
        builds_on=("two_ctas_per_sm",),
        limits=(*_GENERAL, _RING),
        general=True,
    ),
    Technique(
        "setmaxnreg_consumers",
        "tma",
        "a producer warpgroup gives its registers to eight consumer warps",
        builds_on=("two_ctas_per_sm", "warp_specialized"),
        tile={64: Tile(256, 64, 3, 8), 128: Tile(256, 64, 3, 8), 256: Tile(128, 32, 2, 8)},
        grid={"cuda": (*(Tile(256, n, 2, 8) for n in (64, 96, 128)), *(Tile(256, n, 3, 8) for n in (48, 64, 96)))},
        limits=(*_GENERAL, _RING, _TWO_WARPGROUPS),
        general=True,
    ),
    Technique(
        "softmax_lock",
        "tma",
        "only one consumer warpgroup at a time is in its softmax; the other has the tensor cores",
        builds_on=("setmaxnreg_consumers",),
        limits=(*_GENERAL, _RING, _TWO_WARPGROUPS),
        general=True,
    ),
    Technique(
        "lazy_consumers",
        "tma",
        "the lazy rescale in those eight consumer warps",
        builds_on=("setmaxnreg_consumers", "lazy_rescale"),
        limits=(*_GENERAL, _RING, _TWO_WARPGROUPS),
        general=True,
    ),
)


def get(name: str) -> Technique:
    """The technique called `name`. Raises KeyError that lists the known names."""
    for technique in TECHNIQUES:
        if technique.name == name:
            return technique
    known = ", ".join(technique.name for technique in TECHNIQUES)
    raise KeyError(f"technique: got {name!r}, expected one of {known} (`twinkernels list` shows them)")


def parent(technique: Technique) -> Technique | None:
    """The nearest ancestor that exists here, or None for the first rung."""
    names = {other.name for other in TECHNIQUES}
    return next((get(name) for name in technique.builds_on if name in names), None)


def reference_tile(technique: Technique, head_dim: int) -> Tile:
    """The registry's tile: the technique's own where the tile is the change, else its parent's. A head_dim that none of
    them names is declined by `limits` at whatever tile: it gets that of the largest that the first rung names."""
    if head_dim in technique.tile:
        return technique.tile[head_dim]
    ancestor = parent(technique)
    return reference_tile(ancestor, head_dim) if ancestor else technique.tile[max(technique.tile)]


def unsupported(technique: Technique, backend: str, problem: Problem, tile: Tile) -> str | None:
    """The reason why `backend` declines this cell, or None when it takes it."""
    language = "cuda" if backend == "cuda" else "triton"
    for limit in technique.limits:
        if limit.backend in ("*", language, backend) and limit.applies(problem, tile):
            return f"{limit.reason}; got tile {tile.slug}, problem {problem.slug}"
    return None


def grid(technique: Technique, backend: str, problem: Problem) -> tuple[Tile, ...]:
    """The tiles that `tune` tries on this cell: the reference tile and the technique's own grid or an ancestor's,
    without declined ones."""
    languages = ("triton", "triton_native") if backend == "triton_native" else (backend,)
    tiles = [reference_tile(technique, problem.head_dim)]
    for language in languages:
        source: Technique | None = technique
        while source is not None and language not in source.grid:
            source = parent(source)
        tiles += source.grid[language] if source is not None else ()
    return tuple(tile for tile in dict.fromkeys(tiles) if unsupported(technique, backend, problem, tile) is None)
