"""The ladder `hopper`: wgmma, and what keeps it fed. Plain data, standard library only.

Its rungs take any lengths: few of their tiles divide one.
"""

from harness.catalog.entries import Ladder, Limit, Technique, Tile, in_gluon
from harness.operators.attention.limits import (
    GENERAL_HEAD_DIM,
    RING,
    SHARED_MEMORY,
    SHARED_MEMORY_BYTES,
    buffers,
    one_q_buffer,
)

LADDER = Ladder(
    "hopper",
    "Hopper: wgmma, registers moved between warpgroups, named barriers",
    archs=("sm_90a",),
    capabilities=(9,),
    experiment="hopper",
    operator="attention",
    every={"mma": "wgmma", "general": True},
)

WARPGROUPS = Limit(
    "*",
    "one, two or three warpgroups multiply: warps must be 4, 8 or 12",
    lambda problem, tile: tile.warps not in (4, 8, 12),
)
WARPGROUP_ROWS = Limit(
    "cuda",
    "each warpgroup that multiplies owns 64 query rows: block_m must be 16 * warps",
    lambda problem, tile: tile.block_m != 16 * tile.warps,
)
WIDTHS = (16, 32, 48, 64, 80, 96, 112, 128, 160, 176, 192, 256)
"""Columns of a wgmma that cuda_kernels/ptx/wgmma.cuh has."""
WGMMA_COLUMNS = Limit(
    "cuda",
    f"one wgmma spans the keys of an iteration: block_n must be one that wgmma.cuh has, {', '.join(map(str, WIDTHS))}",
    lambda problem, tile: tile.block_n not in WIDTHS,
)
TURNS = Limit(
    "cuda",
    "two or three warpgroups take turns: warps must be 8 or 12",
    lambda problem, tile: tile.warps not in (8, 12),
)
STAGED_OUTPUT = Limit(
    "cuda",
    f"where {SHARED_MEMORY_BYTES} bytes do not hold two buffers of Q and the rings of K and V, each warpgroup stages O "
    "in a stage of V: stages must be warps / 4 or more, block_n 64 or more",
    lambda problem, tile: one_q_buffer(problem, tile) and (tile.stages < tile.warps // 4 or tile.block_n < 64),
)
OVERLAPPED_REGISTERS = Limit(
    "cuda",
    "O, the next scores and P live at once, in the 160 registers of a thread where three warpgroups multiply: "
    "2 * head_dim + 3 * block_n must be 512 at most",
    lambda problem, tile: tile.warps == 12 and 2 * problem.head_dim + 3 * tile.block_n > 512,
)
DOUBLED_REGISTERS = Limit(
    "cuda",
    "two sets of P, the scores and O live at once: head_dim / 2 + block_n must be 208 at most, 128 with three math "
    "warpgroups, and block_n 48 at head_dim 256",
    lambda problem, tile: (
        problem.head_dim // 2 + tile.block_n > (128 if tile.warps == 12 else 208)
        or (problem.head_dim == 256 and tile.block_n > 48)
    ),
)
SAME_KEYS = Limit(
    "cuda",
    "the blocks of a pair must see the same keys: full attention only",
    lambda problem, tile: problem.causal,
)
GLUON_PAIRS = tuple(
    Limit(
        f"gluon@{version}",
        "Gluon has multicast from 3.7 on, and a barrier that counts the arrivals of two blocks from 3.8 on: this needs "
        "a newer Triton, as in gluon@3.9.0",
        lambda problem, tile: True,
    )
    for version in ("3.6.0", "3.7.1")
)
CORE_POWERS_OF_TWO = Limit(
    "core_triton",
    "core Triton's tensors and warps come in powers of two: block_m, block_n and warps must be such",
    lambda problem, tile: any(size & size - 1 for size in (tile.block_m, tile.block_n, tile.warps)),
)
GLUON_WARPGROUP_ROWS = Limit(
    "gluon",
    "each consumer warpgroup owns 64 query rows, and a block has any number of them: block_m must be 16 * warps",
    lambda problem, tile: tile.block_m != 16 * tile.warps,
)
GLUON_COLUMNS = Limit(
    "gluon",
    "Gluon's tensors have powers of two for sizes: block_n must be such, 64 or more",
    lambda problem, tile: bool(tile.block_n & tile.block_n - 1) or tile.block_n < 64,
)
GLUON_ONE_PROGRAM = Limit(
    "gluon",
    "without roles all warps run one program, and Gluon counts them in powers of two: warps must be 4 or 8",
    lambda problem, tile: tile.warps not in (4, 8),
)
GLUON_REGISTERS = Limit(
    "gluon",
    "O, the scores and P share the 160 registers of a thread where three warpgroups multiply, or 240 where fewer do: "
    "2 * head_dim + 3 * block_n must be 640 at most, 896 with fewer",
    lambda problem, tile: 2 * problem.head_dim + 3 * tile.block_n > (640 if tile.warps == 12 else 896),
)
GLUON_OVERLAPPED_REGISTERS = Limit(
    "gluon",
    "O, the next scores and P live at once, in the 160 registers of a thread where three warpgroups multiply, or 240 "
    "where fewer do: 2 * head_dim + 3 * block_n must be 512 at most, 768 with fewer",
    lambda problem, tile: 2 * problem.head_dim + 3 * tile.block_n > (512 if tile.warps == 12 else 768),
)
TRITON_ROLES = Limit(
    "core_triton",
    "Triton gives roles to two warpgroups that share 128 rows or more: warps must be 8, block_m 128 or more",
    lambda problem, tile: tile.warps != 8 or tile.block_m < 128,
)
THREE_STAGES = Limit(
    "core_triton",
    "a tile has four steps at least, more than stages: stages must be 3 at most",
    lambda problem, tile: tile.stages > 3,
)
TRITON_Q_BUFFERS = Limit(
    "core_triton",
    f"Q has as many buffers as K and V: all must fit the {SHARED_MEMORY_BYTES} bytes of shared memory of a block",
    lambda problem, tile: (
        buffers(problem, tile) + 2 * problem.head_dim * (tile.stages - 1) * tile.block_m > SHARED_MEMORY_BYTES
    ),
)
LIMITS = (
    GENERAL_HEAD_DIM,
    WARPGROUPS,
    WARPGROUP_ROWS,
    WGMMA_COLUMNS,
    RING,
    SHARED_MEMORY,
    CORE_POWERS_OF_TWO,
    GLUON_WARPGROUP_ROWS,
    GLUON_COLUMNS,
    *in_gluon(SHARED_MEMORY),
    GLUON_REGISTERS,
)
TURNED = (TURNS, *in_gluon(TURNS))
OVERLAPPED = (*LIMITS, GLUON_OVERLAPPED_REGISTERS)

TILES = tuple(
    Tile(16 * warps, block_n, stages, warps)
    for warps, columns in ((4, (128, 160, 176)), (8, (64, 80, 96, 112, 128, 160, 176)), (12, (80, 96, 112, 128)))
    for block_n in columns
    for stages in (2, 3)
)
FLAGSHIP_TILES = (
    Tile(128, 64, 2, 8),
    Tile(128, 80, 2, 8),
    Tile(128, 128, 2, 8),
    Tile(128, 176, 2, 8),
    Tile(192, 64, 4, 12),
    Tile(192, 80, 3, 12),
    Tile(192, 128, 2, 12),
    Tile(192, 128, 3, 12),
)
FLAGSHIP_LIMITS = (*OVERLAPPED, *TURNED, STAGED_OUTPUT, OVERLAPPED_REGISTERS)
TRITON_TILES = (
    *Tile.grid((64,), (64, 128, 256), (1, 2, 3), (4,)),
    *Tile.grid((128,), (64, 128), (1, 2, 3), (4, 8)),
    *Tile.grid((128,), (32,), (2, 3), (8,)),
    Tile(256, 64, 2, 8),
)
GLUON_TILES = (
    *(Tile(64, block_n, 2, 4) for block_n in (128, 256)),
    *Tile.grid((128,), (64, 128), (2, 3), (8,)),
    Tile(128, 256, 2, 8),
    *Tile.grid((192,), (64, 128), (2, 3), (12,)),
    Tile(192, 64, 4, 12),
)

TECHNIQUES = LADDER.rungs(
    Technique(
        "wgmma",
        "products by wgmma: K and V from shared memory by descriptor, P from registers, a wait after every product",
        builds_on=("mbarrier_ring",),
        also=("tile",),
        tile={64: Tile(128, 128, 2, 8), 128: Tile(128, 128, 2, 8), 256: Tile(128, 64, 2, 8)},
        grid={"cuda": TILES, "triton": TRITON_TILES, "gluon": GLUON_TILES},
        limits=(*LIMITS, GLUON_ONE_PROGRAM),
    ),
    Technique(
        "producer_consumer",
        "one warp of a producer warpgroup loads K and V; the registers of that warpgroup go to those that multiply",
        builds_on=("wgmma",),
        limits=(*LIMITS, TRITON_ROLES),
    ),
    Technique(
        "host_descriptors",
        "descriptors of K and V come from the host, O is stored from registers, and its shared memory holds a second "
        "stage",
        builds_on=("producer_consumer",),
    ),
    Technique(
        "three_warpgroups",
        "the tile only: 192 query rows, a third consumer warpgroup",
        builds_on=("producer_consumer",),
        tile={64: Tile(192, 128, 2, 12), 128: Tile(192, 128, 2, 12)},
    ),
    Technique(
        "exp_lock",
        "warpgroups take turns: one at a time is in its exponentials, the others have the tensor cores",
        builds_on=("producer_consumer",),
        limits=(*LIMITS, *TURNED, TRITON_ROLES),
    ),
    Technique(
        "overlapped_softmax",
        "inside a warpgroup the next Q K^T is issued together with this P V, and the softmax runs between the two "
        "waits",
        builds_on=("producer_consumer",),
        builds_on_in={"triton": "wgmma"},
        limits=OVERLAPPED,
    ),
    Technique(
        "held_overlap",
        "the same order of products, but the exponentials come before the wait for P V in the machine code too",
        builds_on=("overlapped_softmax",),
        shows="SharedMemory::passed, negative",
    ),
    Technique(
        "double_buffered_p",
        "P has two sets of registers: the next one is converted while P V still reads the last",
        builds_on=("held_overlap",),
        tile={256: Tile(128, 32, 2, 8)},
        limits=(*LIMITS, DOUBLED_REGISTERS),
    ),
    Technique(
        "pingpong",
        "the consumer warpgroups take turns at issuing their products",
        builds_on=("overlapped_softmax",),
        limits=(*OVERLAPPED, *TURNED),
    ),
    Technique(
        "wide_tile",
        "the tile only: as many query rows or keys as the registers hold, which is no power of two",
        builds_on=("pingpong",),
        tile={64: Tile(192, 128, 2, 12), 128: Tile(192, 80, 2, 12), 256: Tile(128, 80, 2, 8)},
    ),
    Technique(
        "pinned_maxima",
        "the release of K depends on the row maxima, which holds them ahead of the wait for P V; each K is loaded "
        "ahead of the V of the iteration before",
        builds_on=("wide_tile", "pingpong"),
        shows="lane == 0 && ordered",
    ),
    Technique(
        "cluster_multicast",
        "two blocks of a cluster share K and V: each loads half of a tile for both",
        builds_on=("pinned_maxima",),
        limits=(*OVERLAPPED, *TURNED, SAME_KEYS, *in_gluon(SAME_KEYS), *GLUON_PAIRS),
    ),
    Technique(
        "persistent",
        "one block per SM takes tile after tile from a counter; Q has two buffers",
        builds_on=("pinned_maxima",),
    ),
    Technique(
        "lasting_roles",
        "roles last for many tiles: the producer loads the next tile while the others finish this one",
        builds_on=("persistent",),
        builds_on_in={"triton": "host_descriptors"},
        also=("tile",),
        tile={64: Tile(128, 128, 2, 8), 128: Tile(128, 128, 2, 8)},
        limits=(*OVERLAPPED, *TURNED, TRITON_ROLES, THREE_STAGES, TRITON_Q_BUFFERS),
    ),
    Technique(
        "own_diagonal",
        "each consumer warpgroup stops at its own diagonal block",
        builds_on=("persistent",),
    ),
    Technique(
        "lazy_rescale_wgmma",
        "O is rescaled only when an exponential relative to the row maximum in use would exceed 4",
        builds_on=("persistent",),
        shows="row_max[half] + SLACK",
    ),
    Technique(
        "early_rescale",
        "O is rescaled between issuing Q K^T and P V, while the tensor cores work on Q K^T",
        builds_on=("lazy_rescale_wgmma",),
        shows="    rescale_o();",
    ),
    Technique(
        "integer_max",
        "three-input integer maxima of the rows, with a voted fallback where all of a lane's scores are negative",
        builds_on=("persistent",),
        builds_on_in={"triton": "wgmma"},
    ),
    Technique(
        "fused_switch",
        "the first Q K^T of the next tile of queries is issued with the last P V of this one",
        builds_on=("persistent",),
    ),
    Technique(
        "tma_store",
        "O leaves by TMA: each warp stages its rows by stmatrix and goes on to its next tile",
        builds_on=("persistent",),
        builds_on_in={"triton": "head_by_head"},
    ),
    Technique(
        "head_by_head",
        "tiles are dealt out head after head: those that share K and V are worked on at the same time",
        builds_on=("tma_store",),
        builds_on_in={"triton": "wgmma"},
    ),
    Technique(
        "flagship",
        "the techniques that pay at each head_dim, with a tile for each mask and length; one warp stores O",
        builds_on=("head_by_head", "own_diagonal"),
        tile={64: Tile(192, 128, 2, 12), 128: Tile(192, 80, 3, 12), 256: Tile(128, 80, 2, 8)},
        grid={"cuda": FLAGSHIP_TILES},
        limits=FLAGSHIP_LIMITS,
        shows="between_products<Rescale>",
    ),
    Technique(
        "thread_rescale",
        "each thread decides by itself whether it rescales its part of O, without a vote",
        builds_on=("flagship",),
        shows="WhenOwnOutgrown",
    ),
    Technique(
        "ascending_keys",
        "behind the diagonal keys ascend: blocks that begin together read the same K and V",
        builds_on=("flagship",),
    ),
)
