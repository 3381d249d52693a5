"""How far the flagship's tiles fill the GPU, which is why one problem is faster than another.

A block works on one tile of queries after another, or the next block takes its place. Two numbers describe a kernel at
each head dimension: at what share of the tensor cores' peak a multiprocessor multiplies, and how long a tile takes
beyond its products. With the order of the tiles they predict the time of every problem, for all masks and lengths. A
kernel that takes another time has another cause. Blocks that share a multiprocessor are assumed to share it evenly.
"""

from __future__ import annotations

import functools
import heapq
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from harness.catalog import experiments
from harness.catalog.entries import Tile
from harness.catalog.roofs import PEAK
from harness.operators.attention.problem import Problem
from harness.rows import reading
from reports.data.dataset import Dataset, Row

EXPERIMENT, KERNEL = "hopper_grid", "flagship"
SERIES = ("cuda", "gluon", "triton")
L2_BYTES, WAVES = 32 << 20, 2
"""Of head_by_head in attention/gluon_warpgroups.py, as in attention/persistent_tiles.cuh."""
LAST_ROWS, SHORT = 1 << 15, 2048
"""Of attention/hopper/flagship.py; LAST_ROWS of HeadByHead in attention/head_by_head.cuh too."""
SECTION_BYTES = 16 << 20
"""Of attention/hopper/flagship.py too, and of LongestFirst in attention/tile_schedulers.cuh."""
REGISTERS, SHARED_BYTES, RESERVED_BYTES, WARPS = 65_536, 233_472, 1024, 64
"""Of a multiprocessor of compute capability 9.0; RESERVED_BYTES for each block (CUDA's programming guide)."""
STEP, MOST = 250, 20_000
"""Clocks: the step in which the time of a tile beyond its products is searched, and the most that is tried."""


@dataclass(frozen=True)
class Cell:
    """One problem. Clocks are those that a multiprocessor's products take at the tensor cores' peak; each block that is
    `resident` with others has its share of them."""

    problem: Problem
    tile: Tile
    row: Row
    multiprocessors: int
    resident: int = 1
    series: str = "cuda"

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
        return self.tflops * 1e3 / (PEAK * self.multiprocessors * self.ghz)

    @property
    def blocks(self) -> int:
        """At once."""
        return self.multiprocessors * self.resident

    @cached_property
    def steps(self) -> list[int]:
        """Of each tile, in the order in which they are dealt out: how many tiles of keys it meets."""
        tiles = math.ceil(self.problem.seq_kv / self.tile.block_n)
        if not self.problem.causal:
            return [tiles] * (self.problem.batch * self.problem.heads * self._q_tiles)
        below = self.problem.seq_kv - self.problem.seq_q
        ends = [min(self.problem.seq_kv, below + (q + 1) * self.tile.block_m) for q in range(self._q_tiles)]
        order = ORDERS[self.series](self.problem, self.tile, self.blocks)
        return [math.ceil(ends[q] / self.tile.block_n) for _, q in order]

    @property
    def _q_tiles(self) -> int:
        return math.ceil(self.problem.seq_q / self.tile.block_m)

    @property
    def step_clocks(self) -> float:
        return 4 * self.tile.block_m * self.tile.block_n * self.problem.head_dim / PEAK

    @property
    def needed(self) -> float:
        """Clocks of each multiprocessor, were the FLOP that count spread evenly over all."""
        return self.problem.flops / PEAK / self.multiprocessors

    def longest(self, beyond: float) -> float:
        """Clocks of the block that ends last, a tile taking `beyond` more than its products."""
        free = [0.0] * self.blocks
        clocks = {steps: (steps * self.step_clocks + beyond) * self.resident for steps in set(self.steps)}
        for steps in self.steps:
            heapq.heapreplace(free, free[0] + clocks[steps])
        return max(free)

    def mean(self, beyond: float) -> float:
        """Clocks of a multiprocessor on average."""
        return (sum(self.steps) * self.step_clocks + len(self.steps) * beyond) / self.multiprocessors


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

    def near(self, distance: float) -> int:
        """How many cells are no further from what is expected."""
        return sum(abs(error) <= distance for error in self.errors)


@functools.cache
def found(data: Dataset, series: str) -> list[HeadDim]:
    """One for each head dimension. It takes three problems with a time and a clock: two numbers are fitted to them."""
    cells: dict[int, list[Cell]] = {}
    for problem in sorted(experiments.load(EXPERIMENT).problems, key=lambda one: (one.causal, one.seq_q)):
        points = (data.point(EXPERIMENT, problem, KERNEL, series, best=best) for best in (True, False))
        row = next((point.row for point in points if point.counts and point.row), None)
        if row and reading.clock_ghz(row):
            together = resident(data, row) if series == "triton" else 1  # a persistent block has all shared memory
            if together:
                cell = Cell(problem, Tile.from_dict(row["tile"]), row, data.multiprocessors(row), together, series)
                cells.setdefault(problem.head_dim, []).append(cell)
    return [fitted(series, head_dim, of) for head_dim, of in sorted(cells.items()) if len(of) > 2]


def fitted(series: str, head_dim: int, cells: Sequence[Cell]) -> HeadDim:
    """The two numbers that predict the times of the cells best: with the least mean distance of logarithms. No rate is
    above 1."""

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


def _filled(cell: Cell, rate: float, beyond: int) -> Filled:
    products = sum(cell.steps) * cell.step_clocks / cell.multiprocessors
    mean, longest = cell.mean(beyond), cell.longest(beyond)
    expected = rate * cell.needed / longest * PEAK * cell.multiprocessors * cell.ghz / 1e3
    return Filled(cell, cell.needed / products, products / mean, mean / longest, expected)


def resident(data: Dataset, row: Row) -> int | None:
    """How many blocks of the kernel of a timing fit a multiprocessor; None where no row read its machine code."""
    alike = ("problem", "tile", "source_sha256")
    codes = (
        one for one in data.with_code(row["technique"], row["backend"]) if all(one[name] == row[name] for name in alike)
    )
    code = next((one["code"] for one in codes), None)
    if code is None:
        return None
    warps = row["tile"]["warps"]
    registers = warps * 32 * 8 * math.ceil(code["registers"] / 8)
    return min(REGISTERS // registers, SHARED_BYTES // (code["smem_bytes"] + RESERVED_BYTES), WARPS // warps)


def shortest_third_last(problem: Problem, tile: Tile, blocks: int) -> list[tuple[int, int]]:
    """(head, tile of queries) of a causal problem: head after head, a head's longest first; the shortest third of each
    head comes after all others, one tile from each head at a time."""
    heads, tiles = _heads_and_tiles(problem, tile)
    others = [(head, q) for head in range(heads) for q in reversed(range(tiles // 3, tiles))]
    return others + [(head, q) for q in reversed(range(tiles // 3)) for head in range(heads)]


def head_by_head(problem: Problem, tile: Tile, blocks: int) -> list[tuple[int, int]]:
    """Head after head, a head's longest first; the last heads, WAVES tiles a block or what fits L2, are taken
    together."""
    heads, tiles = _heads_and_tiles(problem, tile)
    fitting = max(1, L2_BYTES // (problem.head_dim * 4) // problem.seq_kv)
    last = min(fitting, math.ceil(WAVES * min(blocks, heads * tiles) / tiles), heads)
    return _last_together(heads, last, tiles)


def last_rows_together(problem: Problem, tile: Tile, blocks: int) -> list[tuple[int, int]]:
    """Of a causal problem: head after head, a head's longest first; the last heads, of LAST_ROWS rows, are taken
    together. Long sequences of head_dim 256 are in sections."""
    heads, tiles = _heads_and_tiles(problem, tile)
    if problem.head_dim == 256 and problem.seq_kv >= SHORT:
        return longest_first(problem, tile, blocks)
    return _last_together(heads, min(math.ceil(LAST_ROWS // tile.block_m / tiles), heads), tiles)


def longest_first(problem: Problem, tile: Tile, blocks: int) -> list[tuple[int, int]]:
    """In sections of heads whose K and V fit SECTION_BYTES, each longest first."""
    heads, tiles = _heads_and_tiles(problem, tile)
    section = max(1, SECTION_BYTES // (problem.head_dim * 4) // problem.seq_kv)
    sections = [_together(first, min(section, heads - first), tiles) for first in range(0, heads, section)]
    return [place for one in sections for place in one]


def _heads_and_tiles(problem: Problem, tile: Tile) -> tuple[int, int]:
    return problem.batch * problem.heads, math.ceil(problem.seq_q / tile.block_m)


def _last_together(heads: int, last: int, tiles: int) -> list[tuple[int, int]]:
    """Head after head, and the `last` heads together."""
    first = heads - last
    return [(head, q) for head in range(first) for q in reversed(range(tiles))] + _together(first, last, tiles)


def _together(first: int, count: int, tiles: int) -> list[tuple[int, int]]:
    return [(first + place % count, tiles - 1 - place // count) for place in range(count * tiles)]


ORDERS = {"cuda": shortest_third_last, "gluon": head_by_head, "triton": last_rows_together}
"""By series: of shortest_third_last in cuda_kernels/attention/persistent_pipeline.cuh, of head_by_head in
triton_kernels/attention/gluon_warpgroups.py and of triton_kernels/attention/hopper/flagship.py."""
