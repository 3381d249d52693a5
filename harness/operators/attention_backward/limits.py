"""Why a backend declines a cell: the limits that several techniques share. Standard library only."""

from harness.catalog.entries import Limit, Tile, in_gluon
from harness.operators.attention.limits import POWER_OF_TWO, SHARED_MEMORY_BYTES
from harness.operators.attention_backward.problem import Problem


def buffers(problem: Problem, tile: Tile) -> int:
    """Bytes of K and V, of the buffers of Q and dO, of P and dS, and 2048 for LSE, D and barriers."""
    kept = 2 * problem.head_dim * (2 * tile.block_n + 2 * tile.stages * tile.block_m)
    return kept + 4 * tile.block_m * tile.block_n + 2048


HEAD_DIM_256 = Limit(
    "cuda",
    "head_dim 256: dK and dV of a warpgroup's 64 keys fill 256 of the 240 registers of a thread, and a tile of 64 "
    "queries and 128 keys, with one buffer of each operand, "
    f"{2 * 256 * 2 * (128 + 64) + 2 * 64 * 128 + 4 * 64 * 256} of the {SHARED_MEMORY_BYTES} bytes of shared memory",
    lambda problem, tile: problem.head_dim == 256,
)
HEAD_DIM = Limit("*", "head_dim must be 64 or 128", lambda problem, tile: problem.head_dim not in (64, 128))
TILE_ROWS = Limit(
    "*",
    "scratch memory has room for tiles of up to 128 queries: block_m must be at most 128",
    lambda problem, tile: tile.block_m > 128,
)
WARP_KEYS = Limit(
    "cuda",
    "each warp has 16 rows of dK and dV: block_n must be 16 * warps",
    lambda problem, tile: tile.block_n != 16 * tile.warps,
)
TWO_STAGES = Limit("cuda", "Q and dO have two buffers each: stages must be 2", lambda problem, tile: tile.stages != 2)
RING = Limit(
    "cuda", "Q and dO have a ring of buffers each: stages must be 2 or more", lambda problem, tile: tile.stages < 2
)
WARP_GRID = Limit(
    "cuda",
    "warps have 16 queries each and share out the keys: block_m must be a multiple of 16 that divides 16 * warps",
    lambda problem, tile: bool(tile.block_m % 16 or 16 * tile.warps % tile.block_m),
)
SHARED_MEMORY = Limit(
    "cuda",
    f"K, V, Q, dO, P and dS must fit the {SHARED_MEMORY_BYTES} bytes of shared memory of a block",
    lambda problem, tile: buffers(problem, tile) > SHARED_MEMORY_BYTES,
)
WARPGROUPS = Limit(
    "cuda",
    "each warpgroup multiplies 64 queries by its 64 keys: block_m must be 64, and warps 4 or 8",
    lambda problem, tile: tile.block_m != 64 or tile.warps not in (4, 8),
)
TWO_WARPGROUPS = Limit(
    "cuda",
    "two warpgroups halve a tile of dQ of 8192 numbers: warps must be 8, and block_m * head_dim 8192",
    lambda problem, tile: tile.warps != 8 or tile.block_m * problem.head_dim != 8192,
)
DQ_BUFFER = Limit(
    "cuda",
    f"with 32 KB of dQ, all buffers must fit the {SHARED_MEMORY_BYTES} bytes of shared memory of a block",
    lambda problem, tile: buffers(problem, tile) + 32 * 1024 > SHARED_MEMORY_BYTES,
)
TWO_DQ_BUFFERS = Limit(
    "cuda",
    f"with 64 KB of dQ, all buffers must fit the {SHARED_MEMORY_BYTES} bytes of shared memory of a block",
    lambda problem, tile: buffers(problem, tile) + 64 * 1024 > SHARED_MEMORY_BYTES,
)
FULL = Limit("cuda", "full attention only: causal must be False", lambda problem, tile: problem.causal)
HEAD_DIM_128 = Limit("cuda", "head_dim must be 128", lambda problem, tile: problem.head_dim != 128)
EIGHTY_ROWS = Limit(
    "cuda",
    "two warpgroups have 64 keys each, and 80 queries a step in two buffers: the tile must be 80x128-s2-w8",
    lambda problem, tile: (tile.block_m, tile.block_n, tile.stages, tile.warps) != (80, 128, 2, 8),
)
GLUON_TILE = Limit(
    "gluon",
    "two warpgroups have 64 keys each and halve a tile of dQ of 8192 numbers: block_n must be 128, warps 8, and "
    "block_m * head_dim 8192",
    lambda problem, tile: (tile.block_n, tile.warps, tile.block_m * problem.head_dim) != (128, 8, 8192),
)
GRID = Limit(
    "cuda",
    "blocks are numbered by head and batch: at most 65535 of each",
    lambda problem, tile: max(problem.heads, problem.batch) > 65_535,
)
DQ_OFFSETS = Limit(
    "cuda",
    "the sums of dQ have int32 offsets in a head: seq_q * head_dim must be at most 2^31 - 16384",
    lambda problem, tile: problem.seq_q * problem.head_dim > 2**31 - 16_384,
)
GLUON = (GLUON_TILE, *in_gluon(RING, DQ_BUFFER))
GENERAL = (HEAD_DIM, POWER_OF_TWO, TILE_ROWS, WARP_KEYS, GRID, DQ_OFFSETS)
MMA = (*GENERAL, TWO_STAGES, WARP_GRID, SHARED_MEMORY)
