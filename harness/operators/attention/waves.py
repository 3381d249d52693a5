"""The tile of a flagship for a problem, by how well its tiles fill the GPU, and which of two. Standard library only.

A block works on one tile of queries after the other, one block on each multiprocessor. What a tile of queries costs is
the same in every problem: so much before and after its loop, and so much for each tile of keys.
"""

from __future__ import annotations

from harness.catalog.entries import Tile
from harness.operators.attention.problem import Problem

COSTS = {
    64: {Tile(192, 128, 3, 12): (1.00, 1.30), Tile(128, 128, 2, 8): (1.60, 1.02)},
    128: {Tile(192, 80, 3, 12): (2.17, 1.21), Tile(128, 128, 2, 8): (2.63, 1.35)},
    256: {Tile(128, 64, 2, 8): (5.14, 1.27), Tile(128, 80, 2, 8): (4.97, 1.57)},
}
"""head_dim -> tile -> microseconds of a tile of queries, and of each tile of keys in it: fitted to what `tune` recorded
on an H100 and an H200 (tests/unit/attention/test_waves.py compares them)."""


def fastest(problem: Problem, multiprocessors: int) -> Tile:
    """The tile that should take the least time on a GPU of so many multiprocessors."""
    costs = COSTS[problem.head_dim]
    return min(costs, key=lambda tile: microseconds(problem, tile, multiprocessors))


def microseconds(problem: Problem, tile: Tile, multiprocessors: int) -> float:
    """Estimated time: whole waves of blocks with equal tiles; with a causal mask the short tiles fill the last wave."""
    once, each = COSTS[problem.head_dim][tile]
    heads, tiles = problem.batch * problem.heads, -(-problem.seq_q // tile.block_m)
    longest = once + each * -(-problem.seq_kv // tile.block_n)
    if not problem.causal:
        return -(-heads * tiles // multiprocessors) * longest
    hidden = problem.seq_kv - problem.seq_q
    ends = (
        min(max(last + hidden, 1), problem.seq_kv)
        for last in range(tile.block_m, problem.seq_q + tile.block_m, tile.block_m)
    )
    several = [once + each * -(-end // tile.block_n) for end in ends]
    if heads * tiles <= multiprocessors:
        return several[-1]
    return max(several[-1], heads * sum(several) / multiprocessors + several[0] / 2)


DECODES = False
"""Whether `flash_attention` takes the ladder decode's flagship where it should be faster: not until it was measured."""

FEW_ROWS = 16
"""Query rows of a head of keys, up to which one warp has all of them."""
DECODE_TILES = {
    64: (Tile(16, 64, 6, 4), Tile(64, 64, 6, 4)),
    128: (Tile(16, 64, 3, 4), Tile(64, 64, 3, 4)),
    256: (Tile(16, 64, 3, 4), Tile(64, 64, 2, 4)),
}
"""head_dim -> the decode flagship's tile for few rows, and for more."""
DECODE_COSTS = {64: (6.0, 0.8), 128: (6.0, 1.6), 256: (6.0, 3.2)}
"""head_dim -> microseconds of a launch, the join of its parts included, and of each tile of keys in a block. A
prediction, not a measurement."""
BYTES_A_MICROSECOND = 3.0e6
"""Of device memory. A prediction."""


def decode_tile(problem: Problem) -> Tile:
    """The decode flagship's tile."""
    few, more = DECODE_TILES[problem.head_dim]
    return few if _rows(problem) <= FEW_ROWS else more


def decodes(problem: Problem, multiprocessors: int) -> bool:
    """Whether the decode flagship should take less time than the other one. Neither is faster than memory."""
    tile, (once, each) = decode_tile(problem), DECODE_COSTS[problem.head_dim]
    memory = problem.bytes / BYTES_A_MICROSECOND
    tiles = problem.batch * problem.heads_kv * -(-_rows(problem) // tile.block_m)
    keys = -(-problem.seq_kv // tile.block_n)
    few = once + max(memory, each * max(1, tiles * keys / multiprocessors))
    return few < max(memory, microseconds(problem, fastest(problem, multiprocessors), multiprocessors))


def _rows(problem: Problem) -> int:
    """Rows of queries that share a head of keys."""
    return problem.heads // problem.heads_kv * problem.seq_q
