"""How certain a ratio is: a hierarchical bootstrap over boards, over processes on a board, over samples of a process.

The samples of one process agree with each other to a fraction of a percent and with the next process's not so well, so
an interval from one process's samples would be a false one. Each draw takes boards with replacement, for each of them
processes with replacement, and for each of those samples with replacement; its value is the mean of the logarithms of
the medians' ratios, over processes, then over boards (the cluster bootstrap; Davison and Hinkley 1997, section 3.8).
Quantiles of the draws of a few boards are too near to each other (of three boards one in four has all its draws on one
side of the truth), so that their distance from the mean is stretched as far as Student's t is wider than the normal
distribution, after Hesterberg 2015, section 5.3. What was timed in at least FEWEST processes has an interval, the rest
says how many there were.

Processes of one pair of programs count wherever they were timed: the same machine code, compilers, libraries and
driver, in one interleaved group, whatever the experiment. The generator is seeded: the same rows give the same
interval.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

import numpy as np

from harness.rows import noise
from harness.rows.reading import Row, problem_of

Array = Any
"""A numpy array."""

LEVEL = 0.95
FEWEST = 3
"""Processes below which there is no interval."""
DRAWS = 1000
NO_CHANGE = "no change"


@dataclass(frozen=True)
class Interval:
    """The interval of a ratio of TFLOPS, ours over theirs, at LEVEL. `low` and `high` are None where fewer than FEWEST
    processes timed both; `rests_on` says in words how many did."""

    low: float | None
    high: float | None
    processes: int
    boards: int

    @property
    def rests_on(self) -> str:
        """3 processes on 2 boards."""
        processes = f"{self.processes} process{'es' * (self.processes != 1)}"
        return f"{processes} on {self.boards} board{'s' * (self.boards != 1)}"

    @property
    def is_no_change(self) -> bool:
        """Whether the interval holds 1: what it is of is called no change."""
        return self.low is not None and self.high is not None and self.low <= 1 <= self.high

    def to_dict(self) -> dict[str, Any]:
        """The interval for JSON; `reason` says why it has no ends."""
        reason = None if self.low is not None else f"timed in {self.rests_on}, expected at least {FEWEST} processes"
        return {
            "low": self.low,
            "high": self.high,
            "processes": self.processes,
            "boards": self.boards,
            "reason": reason,
        }


@dataclass(frozen=True)
class Estimate:
    """A logarithm of TFLOPS over TFLOPS, or a sum of such: the mean over processes, then over boards, and the
    bootstrap's `draws` of it, None where fewer than FEWEST processes timed all that it is of. `sampled`: board -> an
    array (processes, draws), samples alone resampled."""

    value: float
    draws: Array | None
    processes: int
    boards: int
    sampled: Mapping[str | None, Array] = field(default_factory=dict)

    @cached_property
    def interval(self) -> Interval:
        """The interval of the ratio that this is the logarithm of."""
        if self.draws is None:
            return Interval(None, None, self.processes, self.boards)
        between = _between(self.draws, _clusters(self.processes, self.boards))
        return Interval(*between, self.processes, self.boards)

    def times(self, factor: float) -> Estimate:
        """The logarithm, and its draws, times a factor."""
        drawn = None if self.draws is None else factor * self.draws
        return Estimate(factor * self.value, drawn, self.processes, self.boards)

    def over(self, constant: float) -> Estimate:
        """What it is the logarithm of, over a number that nobody timed beside it."""
        shift = math.log(constant)
        drawn = None if self.draws is None else self.draws - shift
        sampled = {board: values - shift for board, values in self.sampled.items()}
        return Estimate(self.value - shift, drawn, self.processes, self.boards, sampled)

    def minus(self, other: Estimate) -> Estimate:
        """The difference to what other processes timed: the draws are independent."""
        drawn = None
        if self.draws is not None and other.draws is not None:
            drawn = self.draws - np.random.default_rng(1).permutation(other.draws)
        fewest = min(self.processes, other.processes), min(self.boards, other.boards)
        return Estimate(self.value - other.value, drawn, *fewest)


class Intervals:
    """Intervals of ratios between rows, from all rows of a GPU. Draws are kept: a ratio is asked for more than once."""

    def __init__(self, timings: noise.Timings, draws: int = DRAWS) -> None:
        self._timings, self._draws = timings, draws
        self._rows: dict[str, dict[Any, Row]] = defaultdict(dict)
        for row in timings.rows:
            self._rows[timings.program(row)][noise.group(row)] = row
        self._known: dict[tuple[str, str], Estimate] = {}

    def ratio(self, ours: Row, theirs: Row) -> Estimate:
        """The logarithm of the ratio of TFLOPS, `ours` over `theirs`, of no processes where none timed both in one
        group."""
        pair = self._timings.program(ours), self._timings.program(theirs)
        if pair not in self._known:
            self._known[pair] = self.estimate([(theirs, -1.0), (ours, 1.0)]) or Estimate(0.0, None, 0, 0)
        return self._known[pair]

    def of(self, ours: Row, theirs: Row) -> Interval:
        """The interval of the ratio of TFLOPS, `ours` over `theirs`. Both rows are of one problem."""
        return self.ratio(ours, theirs).interval

    def tflops(self, row: Row) -> Estimate:
        """The logarithm of the TFLOPS of the row's program on its problem."""
        found = self.estimate([(row, 1.0)]) or Estimate(-noise.log_ms(row), None, 1, 1)
        return found.over(1e9 / problem_of(row).flops)

    def timings(self, row: Row) -> list[Row]:
        """Every timing of the row's program on its problem, of any process."""
        return list(self._rows[self._timings.program(row)].values())

    def mean(self, pairs: Iterable[tuple[Row, Row]]) -> Interval:
        """The interval of the geometric mean of several cells' ratios."""
        return self.mean_of([self.ratio(*pair) for pair in pairs])

    def mean_of(self, found: Sequence[Estimate]) -> Interval:
        """The interval of the geometric mean of several cells. A draw takes the same boards for all cells: a board
        moves them together. It has no ends where one of the cells has none."""
        fewest = min((one.processes for one in found), default=0), min((one.boards for one in found), default=0)
        if not found or any(one.draws is None for one in found):
            return Interval(None, None, *fewest)
        boards = sorted({board for one in found for board in one.sampled}, key=str)
        chance = np.random.default_rng(0)
        often = chance.multinomial(len(boards), np.full(len(boards), 1 / len(boards)), self._draws)
        moved = [_moved(one, often[:, [boards.index(board) for board in one.sampled]], chance) for one in found]
        value = statistics.fmean(one.value for one in found)
        return Estimate(value, value + np.nanmean(moved, axis=0), *fewest).interval

    def estimate(self, weights: Iterable[tuple[Row, float]], board: str | None = None) -> Estimate | None:
        """The sum of weight times logarithm of TFLOPS over programs of one problem, from the groups that hold all of
        them, of all boards or of one; with weight 0 a program only has to be there. None where no group has them
        all."""
        wanted = list(weights)
        boards: dict[str | None, dict[Any, list[list[tuple[Row, float]]]]] = defaultdict(lambda: defaultdict(list))
        for found in self._together([row for row, _ in wanted]):
            members = [(row, weight) for row, (_, weight) in zip(found, wanted, strict=True) if weight]
            where = self._timings.board(found[0])
            if board is None or where == board:
                boards[where][process(found[0])].append(members)
        processes = sum(len(found) for found in boards.values())
        if not processes:
            return None
        value = statistics.fmean(
            statistics.fmean(statistics.fmean(map(_sum, groups)) for groups in found.values())
            for found in boards.values()
        )
        if processes < FEWEST:
            return Estimate(value, None, processes, len(boards))
        chance = np.random.default_rng(0)
        sampled = {
            board: np.array(
                [np.mean([_drawn(one, chance, self._draws) for one in groups], axis=0) for groups in found.values()]
            )
            for board, found in boards.items()
        }
        return Estimate(value, _resampled(list(sampled.values()), chance), processes, len(boards), sampled)

    def met(self, rows: Sequence[Row], board: str | None = None) -> bool:
        """Whether one group, of any board or of this one, timed the programs of all these rows."""
        return any(board in (None, self._timings.board(together[0])) for together in self._together(rows))

    def boards(self, rows: Sequence[Row]) -> list[str]:
        """The boards on which one group timed the programs of all these rows."""
        found = {self._timings.board(together[0]) for together in self._together(rows)}
        return sorted(filter(None, found))

    def _together(self, rows: Sequence[Row]) -> list[list[Row]]:
        """The rows of the same programs, group by group that has them all."""
        of_programs = [self._rows[self._timings.program(row)] for row in rows]
        groups = set.intersection(*map(set, of_programs))
        return [[of_program[group] for of_program in of_programs] for group in sorted(groups, key=str)]


def process(row: Row) -> tuple[Any, Any]:
    """The process that timed a row: its environment, and the run that its group is named after."""
    return row.get("environment"), str(row.get("group")).rpartition("-")[0]


def described(interval: Mapping[str, Any] | None, *, of_ratio: bool = True) -> str:
    """An interval of the scorecard in words: 0.985 to 1.003 (3 processes, 1 board), or in how few processes it was
    timed. A ratio whose interval holds 1 is no change; a share of 1 is all."""
    if interval is None:
        return ""
    processes = f"{interval['processes']} process{'es' * (interval['processes'] != 1)}"
    if interval["low"] is None:
        return f"none: {processes}"
    no_change = f"{NO_CHANGE}: " if of_ratio and interval["low"] <= 1 <= interval["high"] else ""
    boards = f"{interval['boards']} board{'s' * (interval['boards'] != 1)}"
    return f"{no_change}{interval['low']:.3f} to {interval['high']:.3f} ({processes}, {boards})"


def _resampled_ms(row: Row, chance: np.random.Generator, draws: int) -> Array:
    """Medians of the row's samples, resampled `draws` times: sorted, which for so few is faster than np.median."""
    samples = np.asarray(row["samples_ms"])
    count = len(samples)
    drawn = np.sort(samples[chance.integers(0, count, (draws, count))], axis=1)
    return (drawn[:, (count - 1) // 2] + drawn[:, count // 2]) / 2


def _sum(members: Iterable[tuple[Row, float]]) -> float:
    """Weight times logarithm of TFLOPS, of one group: of equal problems times count in place of TFLOPS."""
    return -sum(weight * noise.log_ms(row) for row, weight in members)


def _drawn(members: Iterable[tuple[Row, float]], chance: np.random.Generator, draws: int) -> Array:
    """`_sum` with samples resampled `draws` times."""
    total = np.zeros(draws)
    for row, weight in members:
        total -= weight * np.log(_resampled_ms(row, chance, draws))
    return total


def _resampled(boards: Sequence[Array], chance: np.random.Generator) -> Array:
    """One value per draw, of boards and of processes on a board taken with replacement. `boards` hold, per board, an
    array (processes, draws)."""
    draws = boards[0].shape[1]
    chosen = chance.integers(0, len(boards), (draws, len(boards)))
    total = np.zeros(draws)
    for column in chosen.T:
        for number, values in enumerate(boards):
            here = np.nonzero(column == number)[0]
            picked = chance.integers(0, len(values), (len(here), len(values)))
            total[here] += values[picked, here[:, None]].mean(axis=1)
    return total / len(boards)


def _moved(cell: Estimate, often: Array, chance: np.random.Generator) -> Array:
    """How far each draw is from the cell's value, of boards taken so `often`, an array (draws, boards), and of
    processes taken with replacement; nan where none of the cell's boards was drawn."""
    values = []
    for board in cell.sampled.values():
        processes, draws = board.shape
        picked = chance.integers(0, processes, (processes, draws))
        values.append(board[picked, np.arange(draws)].mean(axis=0))
    count = often.sum(axis=1)
    total = (often.T * np.array(values)).sum(axis=0)
    return np.divide(total, count, out=np.full(len(count), math.nan), where=count > 0) - cell.value


def _clusters(processes: int, boards: int) -> int:
    """How many independent measurements there are: boards, or processes where fewer than FEWEST boards had them all."""
    return boards if boards >= FEWEST else processes


def _between(drawn: Array, clusters: int) -> tuple[float, float]:
    normal = statistics.NormalDist().inv_cdf((1 + LEVEL) / 2)
    stretched = math.sqrt(clusters / (clusters - 1)) * _students_t((1 + LEVEL) / 2, clusters - 1) / normal
    mean = float(np.mean(drawn))
    low, high = (float(np.quantile(drawn, share)) - mean for share in ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    return math.exp(mean + stretched * low), math.exp(mean + stretched * high)


@cache
def _students_t(share: float, freedom: int) -> float:
    """The quantile of Student's t distribution, by adding up its density."""
    x = np.linspace(0, 100, 200_001)
    density = (1 + x**2 / freedom) ** (-(freedom + 1) / 2)
    density *= math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(freedom * math.pi)
    return float(np.interp(share - 0.5, np.cumsum(density) * (x[1] - x[0]), x))
