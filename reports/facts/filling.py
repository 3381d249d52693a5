"""How far the flagship's tiles fill the GPU, and that this is what one problem has over another.

A block works on one tile of queries after another and takes the next from a counter. Two numbers for each head
dimension describe it: at what share of the tensor cores' peak it multiplies, and how long a tile takes beyond its
products. With the order of the tiles they give the time of every problem, masks and lengths alike; where kernels differ
from that, it is by something else.
"""

from __future__ import annotations

import heapq
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from harness.catalog import experiments
from harness.catalog.problem import Problem, Tile
from harness.catalog.roofs import PEAK
from harness.rows import reading
from reports.data.dataset import Dataset, Row

EXPERIMENT, KERNEL = "hopper_grid", "flagship"
SERIES = ("cuda", "gluon")
"""Languages whose flagship stays on the GPU and deals out tiles in this order."""
L2_BYTES, WAVES = 32 << 20, 2
"""Of head_by_head in cuda_kernels/persistent_tiles.cuh and triton_kernels/gluon_warpgroups.py."""
STEP, MOST = 250, 20_000
"""Clocks: to so many the time of a tile beyond its products is known, and more are not looked for."""


@dataclass(frozen=True)
class Cell:
    """One problem. Clocks are those that a multiprocessor's products take at the tensor cores' peak."""

    problem: Problem
    tile: Tile
    row: Row
    blocks: int

    @property
    def tflops(self) -> float:
        return reading.tflops(self.row)

    @cached_property
    def ghz(self) -> float:
        """Of the kernel, where `found` takes it from: a row without it is left out there."""
        return reading.clock_ghz(self.row) or math.nan

    @property
    def share(self) -> float:
        """Of the tensor cores' peak at the kernel's own clock."""
        return self.tflops * 1e3 / (PEAK * self.blocks * self.ghz)

    @cached_property
    def steps(self) -> list[int]:
        """Of each tile, in the order in which they are dealt out: how many tiles of keys it meets."""
        tiles = math.ceil(self.problem.seq_kv / self.tile.block_n)
        if not self.problem.causal:
            return [tiles] * (self.problem.batch * self.problem.heads * self._q_tiles)
        below = self.problem.seq_kv - self.problem.seq_q
        ends = [min(self.problem.seq_kv, below + (q + 1) * self.tile.block_m) for q in range(self._q_tiles)]
        return [math.ceil(ends[q] / self.tile.block_n) for _, q in order(self.problem, self.tile, self.blocks)]

    @property
    def _q_tiles(self) -> int:
        return math.ceil(self.problem.seq_q / self.tile.block_m)

    @property
    def step_clocks(self) -> float:
        return 4 * self.tile.block_m * self.tile.block_n * self.problem.head_dim / PEAK

    @property
    def needed(self) -> float:
        """Clocks of each block, were the FLOP that count spread evenly over all."""
        return self.problem.flops / PEAK / self.blocks

    def longest(self, beyond: float) -> float:
        """Clocks of the block that ends last, a tile taking `beyond` more than its products."""
        free = [0.0] * self.blocks
        for steps in self.steps:
            heapq.heapreplace(free, free[0] + steps * self.step_clocks + beyond)
        return max(free)

    def mean(self, beyond: float) -> float:
        """Clocks of a block on average."""
        return (sum(self.steps) * self.step_clocks + len(self.steps) * beyond) / self.blocks


@dataclass(frozen=True)
class Filled:
    """A cell in factors: `whole` of the products of its tiles count, the others lie beyond the mask and the ends;
    `inside` of a tile's time is products; `even` of the time until the last block ends an average block works."""

    cell: Cell
    whole: float
    inside: float
    even: float
    expected: float
    """TFLOPS."""

    @property
    def share(self) -> float:
        return self.whole * self.inside * self.even


@dataclass(frozen=True)
class HeadDim:
    """The cells of one head dimension in one language, shortest first, full before causal. `rate`: the share of the
    tensor cores' peak at which a block multiplies; `beyond`: clocks of a tile beyond its products."""

    series: str
    head_dim: int
    rate: float
    beyond: int
    cells: list[Filled]

    @property
    def errors(self) -> list[float]:
        """By how much each cell is faster than expected, as a share."""
        return [one.cell.tflops / one.expected - 1 for one in self.cells]


def found(data: Dataset, series: str) -> list[HeadDim]:
    """Of each head dimension of which at least as many problems as there are unknowns have a time and a clock."""
    cells: dict[int, list[Cell]] = {}
    for problem in sorted(experiments.load(EXPERIMENT).problems, key=lambda one: (one.causal, one.seq_q)):
        points = (data.point(EXPERIMENT, problem, KERNEL, series, best=best) for best in (True, False))
        row = next((point.row for point in points if point.counts and point.row), None)
        if row and reading.clock_ghz(row):
            count = data.environments[row["environment"]]["details"]["gpu"]["sm_count"]
            cells.setdefault(problem.head_dim, []).append(Cell(problem, Tile.from_dict(row["tile"]), row, count))
    return [fitted(series, head_dim, of) for head_dim, of in sorted(cells.items()) if len(of) > 2]


def fitted(series: str, head_dim: int, cells: Sequence[Cell]) -> HeadDim:
    """The two numbers by which cells are expected to take the time that they took, as nearly as can be: the mean
    distance is the least. No rate is above 1."""

    def rates(beyond: int) -> list[float]:
        return [cell.longest(beyond) / cell.needed * cell.share for cell in cells]

    def distance(beyond: int) -> float:
        logarithms = [math.log(rate) for rate in rates(beyond)]
        middle = min(0.0, statistics.median(logarithms))
        return statistics.fmean(abs(one - middle) for one in logarithms)

    near = min(range(0, MOST, 4 * STEP), key=distance)
    beyond = min(range(max(0, near - 3 * STEP), near + 4 * STEP, STEP), key=distance)
    rate = min(1.0, statistics.median(rates(beyond)))
    return HeadDim(series, head_dim, rate, beyond, [_filled(cell, rate, beyond) for cell in cells])


def is_in_the_loop(ours: Sequence[HeadDim], theirs: Sequence[HeadDim]) -> bool:
    """Whether, in every head dimension, the rate while a block multiplies parts two languages more than twice as far
    as what their tiles fill."""
    mine = {one.head_dim: one for one in ours}
    return all(
        math.log(mine[one.head_dim].rate / one.rate) > 2 * abs(_apart(mine[one.head_dim], one))
        for one in theirs
        if one.head_dim in mine
    )


def _apart(ours: HeadDim, theirs: HeadDim) -> float:
    """The logarithm of how much more tiles fill, on the median of the problems that both have."""
    mine = {line.cell.problem: line.share for line in ours.cells}
    both = [line for line in theirs.cells if line.cell.problem in mine]
    return statistics.median(math.log(mine[line.cell.problem] / line.share) for line in both)


def _filled(cell: Cell, rate: float, beyond: int) -> Filled:
    products = sum(cell.steps) * cell.step_clocks / cell.blocks
    mean, longest = cell.mean(beyond), cell.longest(beyond)
    expected = rate * cell.needed / longest * PEAK * cell.blocks * cell.ghz / 1e3
    return Filled(cell, cell.needed / products, products / mean, mean / longest, expected)


def order(problem: Problem, tile: Tile, blocks: int) -> list[tuple[int, int]]:
    """(head, tile of queries) of a causal problem, as TilePlace::head_by_head deals them out: head after head, a
    head's longest first; the last heads, WAVES tiles a block or what fits L2, are taken together."""
    heads, tiles = problem.batch * problem.heads, math.ceil(problem.seq_q / tile.block_m)
    fitting = max(1, L2_BYTES // (problem.head_dim * 4) // problem.seq_kv)
    last = min(fitting, math.ceil(WAVES * min(blocks, heads * tiles) / tiles), heads)
    first = heads - last
    return [(head, q) for head in range(first) for q in reversed(range(tiles))] + [
        (first + place % last, tiles - 1 - place // last) for place in range(last * tiles)
    ]
