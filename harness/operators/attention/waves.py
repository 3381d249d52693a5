"""The tile of a flagship for a problem, by how well its tiles fill the GPU, and which of two. Standard library only.

A block works on one tile of queries after the other, one block on each multiprocessor. What a tile of queries costs is
the same in every problem: so much before and after its loop, and so much for each tile of keys.
"""

import heapq

from harness.catalog.entries import Tile
from harness.operators.attention.problem import Problem

COSTS = {
    64: {Tile(192, 128, 3, 12): (0.6, 1.31), Tile(128, 128, 2, 8): (1.5, 1.01)},
    128: {Tile(192, 80, 3, 12): (1.8, 1.20), Tile(128, 128, 2, 8): (2.1, 1.36)},
    256: {Tile(128, 64, 2, 8): (4.2, 1.28), Tile(128, 80, 2, 8): (4.2, 1.59)},
}
"""head_dim -> tile -> microseconds of a tile of queries, and of each tile of keys in it: fitted to what `tune` recorded
on an H100 and an H200 (tests/unit/attention/test_waves.py compares them)."""
LAUNCH = 7.5
"""Microseconds of a launch, up to the first product and after the last."""
DEALT = 16
"""Up to so many tiles of queries for each multiprocessor are dealt out one by one, which takes a millisecond of Python.
More tiles fill the gaps that their order leaves."""


def fastest(problem: Problem, multiprocessors: int) -> Tile:
    """The tile that should take the least time on a GPU of so many multiprocessors."""
    times = _times(problem, multiprocessors)
    return min(times, key=times.__getitem__)


def _times(problem: Problem, multiprocessors: int) -> dict[Tile, float]:
    return {tile: microseconds(problem, tile, multiprocessors) for tile in COSTS[problem.head_dim]}


def microseconds(problem: Problem, tile: Tile, multiprocessors: int) -> float:
    """Estimated time: whole waves of blocks with equal tiles; with a causal mask each tile goes to the block that is
    free first, in the flagship's order (persistent_pipeline.cuh)."""
    once, each = COSTS[problem.head_dim][tile]
    heads, tiles = problem.batch * problem.heads, -(-problem.seq_q // tile.block_m)
    if not problem.causal:
        keys = -(-problem.seq_kv // tile.block_n)
        return LAUNCH + -(-heads * tiles // multiprocessors) * (once + each * keys)
    hidden = problem.seq_kv - problem.seq_q
    ends = (min(last * tile.block_m, problem.seq_q) + hidden for last in range(tiles, 0, -1))
    longest_first = [once + each * -(-max(end, 1) // tile.block_n) for end in ends]
    if heads * tiles > DEALT * multiprocessors:
        return LAUNCH + heads * sum(longest_first) / multiprocessors + longest_first[-1] / 2
    at_once = tiles - tiles // 3
    dealt = longest_first[:at_once] * heads + [one for one in longest_first[at_once:] for _ in range(heads)]
    blocks = [0.0] * min(multiprocessors, len(dealt))
    for one in dealt:
        heapq.heapreplace(blocks, blocks[0] + one)
    return LAUNCH + max(blocks)


DECODE_TILES = {
    64: (Tile(16, 128, 6, 8), Tile(64, 64, 6, 8)),
    128: (Tile(16, 128, 3, 8), Tile(64, 64, 3, 8)),
    256: (Tile(16, 64, 3, 4), Tile(64, 64, 2, 4)),
}
"""head_dim -> the decode flagship's tile for few rows, and for more."""
JOINED_TILES, LONG = 64, 32_768
"""Tiles with more rows read the keys once, but one block joins what all parts have of them: not worth it below so many
heads of keys in all batches, unless there are so many keys."""
DECODE_COSTS = (13.0, 0.35)
"""Microseconds of a launch, its first load and its join included, and of 1024 products of a row and a key at head_dim
128 on a multiprocessor."""
BYTES_A_MICROSECOND = 3.0e6
"""Of device memory."""


def decode_tile(problem: Problem) -> Tile:
    few, more = DECODE_TILES[problem.head_dim]
    if _rows(problem) <= few.block_m:
        return few
    return more if problem.batch * problem.heads_kv >= JOINED_TILES or problem.seq_kv >= LONG else few


def decodes(problem: Problem, multiprocessors: int) -> bool:
    """Whether the decode flagship should take less time than the other one, or no more than memory takes for both."""
    once, each = DECODE_COSTS
    memory = problem.bytes / BYTES_A_MICROSECOND
    rows = decode_tile(problem).block_m
    products = problem.batch * problem.heads_kv * -(-_rows(problem) // rows) * rows * problem.seq_kv / multiprocessors
    work = each * products / 1024 * problem.head_dim / 128
    other = min(_times(problem, multiprocessors).values())
    return once + max(memory, work) < other or memory >= max(work, other)


def _rows(problem: Problem) -> int:
    """Rows of queries that share a head of keys."""
    return problem.heads // problem.heads_kv * problem.seq_q
