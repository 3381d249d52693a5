"""Why a backend declines a cell: the limits that several techniques share. Standard library only."""

from harness.catalog.entries import Limit, Tile, in_gluon
from harness.operators.attention.problem import Problem

SHARED_MEMORY_BYTES = 227 * 1024
"""Bytes that a block can ask for on compute capability 9.0."""


def buffers(problem: Problem, tile: Tile) -> int:
    """Bytes of Q and of the rings of K and V, 1024 for their barriers and where the buffer must start."""
    return 2 * problem.head_dim * (tile.block_m + 2 * tile.stages * tile.block_n) + 1024


def one_q_buffer(problem: Problem, tile: Tile) -> bool:
    """Whether a second buffer of Q finds no room beside the rings of K and V."""
    return buffers(problem, tile) + 2 * problem.head_dim * tile.block_m > SHARED_MEMORY_BYTES


RAGGED = Limit(
    "*",
    "lengths must be multiples of the tile (a rung marked general takes any length)",
    lambda problem, tile: bool(problem.seq_q % tile.block_m or problem.seq_kv % tile.block_n),
)
HEAD_DIM = Limit(
    "*",
    "head_dim must be 64 or 128 (a rung marked general takes 256)",
    lambda problem, tile: problem.head_dim not in (64, 128),
)
GENERAL_HEAD_DIM = Limit(
    "*",
    "head_dim must be 64, 128 or 256",
    lambda problem, tile: problem.head_dim not in (64, 128, 256),
)
ROWS = Limit(
    "cuda",
    "each warp owns 16 query rows: block_m must be 16 * warps",
    lambda problem, tile: tile.block_m != 16 * tile.warps,
)
TWO_M_TILES = Limit(
    "cuda",
    "each warp owns one or two m16 tiles: block_m must be 16 or 32 * warps",
    lambda problem, tile: tile.block_m not in (16 * tile.warps, 32 * tile.warps),
)
COLUMNS = Limit(
    "cuda",
    "block_n must be a multiple of 16, at most 128",
    lambda problem, tile: bool(tile.block_n % 16) or tile.block_n > 128,
)
ONE_STAGE = Limit(
    "cuda",
    "K and V have one buffer each: stages must be 1",
    lambda problem, tile: tile.stages != 1,
)
RING = Limit(
    "cuda",
    "K and V have a ring of buffers each: stages must be 2 or more",
    lambda problem, tile: tile.stages < 2,
)
SHARED_MEMORY = Limit(
    "cuda",
    f"Q and the rings of K and V must fit the {SHARED_MEMORY_BYTES} bytes of shared memory of a block",
    lambda problem, tile: buffers(problem, tile) > SHARED_MEMORY_BYTES,
)
POWER_OF_TWO = Limit(
    "triton",
    "Triton's tensors have powers of two for sizes: block_m and block_n must be such",
    lambda problem, tile: bool(tile.block_m & tile.block_m - 1 or tile.block_n & tile.block_n - 1),
)
GLUON_ROWS = Limit(
    "gluon",
    "each warp owns one or more m16 tiles: block_m must be a multiple of 16 * warps",
    lambda problem, tile: bool(tile.block_m % (16 * tile.warps)),
)
GRID_LIMIT = 65_535
"""Blocks in the second and in the third dimension of a grid."""
GRID = (
    Limit(
        "cuda",
        f"batches and tiles of queries are dimensions of the grid: at most {GRID_LIMIT} each",
        lambda problem, tile: max(problem.batch, problem.seq_q // tile.block_m) > GRID_LIMIT,
    ),
    Limit(
        "triton",
        f"tiles of queries are a dimension of the grid: at most {GRID_LIMIT}",
        lambda problem, tile: problem.seq_q // tile.block_m > GRID_LIMIT,
    ),
)
HEADS_IN_GRID = Limit(
    "*",
    f"heads and batches are dimensions of the grid: at most {GRID_LIMIT} each",
    lambda problem, tile: max(problem.batch, problem.heads) > GRID_LIMIT,
)
ANY_GRID = (RAGGED, HEAD_DIM, POWER_OF_TWO)
PLAIN = (*ANY_GRID, *GRID)
MMA = (*PLAIN, ROWS, COLUMNS, ONE_STAGE, GLUON_ROWS, *in_gluon(ONE_STAGE))
M_TILES = (TWO_M_TILES, COLUMNS, ONE_STAGE)
BATCHED = (*PLAIN, *M_TILES)
GENERAL = (GENERAL_HEAD_DIM, POWER_OF_TWO, TWO_M_TILES, COLUMNS)
TWO_WARPGROUPS = Limit("cuda", "two consumer warpgroups: warps must be 8", lambda problem, tile: tile.warps != 8)
GLUON_TMA_ROWS = Limit(
    "gluon",
    "Q comes by one TMA load, of 256 rows at most: block_m must be 128 or 256",
    lambda problem, tile: tile.block_m not in (128, 256),
)
GLUON_CONSUMER_REGISTERS = Limit(
    "gluon",
    "O and the scores share the 240 registers that a thread of two warpgroups has: "
    "block_m * (head_dim + block_n) must be 49152 at most",
    lambda problem, tile: tile.block_m * (problem.head_dim + tile.block_n) > 49152,
)
THREAD_MAP = Limit(
    "cuda",
    "the thread map is 8 x 16 threads: block_m 64, block_n 32 or 64, 4 warps",
    lambda problem, tile: (tile.block_m, tile.warps) != (64, 4) or tile.block_n not in (32, 64),
)
