"""The flagship's tile for a problem, by how well its tiles of queries fill the GPU. Standard library only.

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
