"""How certain a ratio of two speeds is, and how far two timings of one program differ although nothing changed.

All functions read `frame("timing")` (harness/rows/frame.py). A *program* is machine code with the compilers, libraries
and driver that ran it on one problem (the column `program`); a *group* is one interleaved group of one process.

Intervals. The samples of one process agree to a fraction of a percent, those of two processes or two boards do not.
So an estimate is the mean over processes, then over boards, and its interval is Student's t over boards, or over
processes where fewer than FEWEST boards timed everything. Combined estimates (sums, differences, means of several
problems) keep what each board or process contributed: a board that is slow on every problem is not averaged away.

Noise. A *pair* is one program timed in two groups. Its time moves, and so do its anchors: the median of the library
peers that both groups timed. Neither is steady alone: cuDNN varies more between boards than our kernels do, and a
lower clock slows everything. So a change counts

- where the anchors moved no more than usual, if time and ratio both show it: the smaller of the two decides;
- where the anchors moved more, by the ratio alone: the machine changed;
- where the groups have no peer in common, by the time alone.

What is usual is a quantile over the pairs among recorded rows, on one board or on two (`limits`).
"""

from __future__ import annotations

import math
import statistics
import warnings
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from pandas import DataFrame

Array = Any
"""A numpy array."""

CONFIDENCE = 0.95
FEWEST = 3
"""Processes below which there is no interval."""
FALSE = {True: 0.01, False: 0.02}
"""Of unchanged programs on one board, and on two: the share that may be called slower or faster."""
FEWEST_PAIRS = 100
"""Below this a quantile that keeps FALSE is not known."""
SHORTEST_MS = 0.07
"""Between two boards, shorter kernels are not judged: two CUDA events measure 2.2 to 3.9 us more than the kernel takes,
depending on the host, which is up to 2.5% of it."""


@dataclass(frozen=True)
class Interval:
    """The interval of a ratio at CONFIDENCE. `low` and `high` are None where fewer than FEWEST processes timed it."""

    low: float | None
    high: float | None
    processes: int
    boards: int

    @property
    def basis(self) -> str:
        """3 processes on 2 boards."""
        return f"{_count(self.processes, 'process')} on {_count(self.boards, 'board')}"

    @property
    def holds_one(self) -> bool:
        """True if the ratio may be 1: a change that may be none."""
        return self.low is not None and self.high is not None and self.low <= 1 <= self.high

    def to_dict(self) -> dict[str, Any]:
        """For JSON; `reason` says why the ends are missing."""
        reason = None if self.low is not None else f"timed in {self.basis}, expected at least {FEWEST} processes"
        ends = {"low": self.low, "high": self.high}
        return {**ends, "processes": self.processes, "boards": self.boards, "reason": reason}


def describe(interval: Mapping[str, Any] | None, *, of_ratio: bool = True) -> str:
    """An interval of the scorecard in words, such as "0.985 to 1.003 (3 processes, 1 board)"."""
    if interval is None:
        return ""
    processes, boards = _count(interval["processes"], "process"), _count(interval["boards"], "board")
    if interval["low"] is None:
        return f"none: {processes}"
    no_change = "no change: " if of_ratio and interval["low"] <= 1 <= interval["high"] else ""
    return f"{no_change}{interval['low']:.3f} to {interval['high']:.3f} ({processes}, {boards})"


@dataclass(frozen=True)
class Estimate:
    """A logarithm of a ratio of speeds (or of a speed), or a sum of such. `parts`: board or process -> how far it moves
    the value, scaled so that the squares add up to the variance."""

    value: float
    processes: int
    boards: int
    parts: Mapping[Any, float] = field(default_factory=dict)

    @property
    def is_settled(self) -> bool:
        return self.processes >= FEWEST

    @cached_property
    def interval(self) -> Interval:
        """The interval of the ratio, not of its logarithm."""
        if not self.is_settled:
            return Interval(None, None, self.processes, self.boards)
        from scipy.special import stdtrit  # the quantile of scipy.stats.t, without its second of imports

        clusters = self.boards if self.boards >= FEWEST else self.processes
        margin = stdtrit(clusters - 1, (1 + CONFIDENCE) / 2) * math.sqrt(sum(part**2 for part in self.parts.values()))
        return Interval(math.exp(self.value - margin), math.exp(self.value + margin), self.processes, self.boards)

    def minus(self, other: Estimate) -> Estimate:
        return combine([(self, 1.0), (other, -1.0)])

    def over(self, constant: float) -> Estimate:
        """Divided by a number that has no samples."""
        return Estimate(self.value - math.log(constant), self.processes, self.boards, self.parts)


def combine(several: Sequence[tuple[Estimate, float]]) -> Estimate:
    """The weighted sum of estimates; it has an interval only if each of them has one."""
    value = sum(weight * one.value for one, weight in several)
    parts: dict[Any, float] = defaultdict(float)
    for one, weight in several:
        for name, part in one.parts.items():
            parts[name] += weight * part
    return Estimate(value, min(one.processes for one, _ in several), min(one.boards for one, _ in several), parts)


def mean(several: Sequence[Estimate]) -> Estimate:
    """The logarithm of the geometric mean."""
    return combine([(one, 1 / len(several)) for one in several])


class Timings:
    """The passed timings of a table, by program and group: estimates over every process that timed the programs in one
    group, whatever the experiment."""

    def __init__(self, timing: DataFrame) -> None:
        self._speeds: dict[str, dict[Any, float]] = defaultdict(dict)
        self._places: dict[Any, tuple[str | None, str]] = {}
        table = measured(timing)
        columns = (table[name] for name in ("program", "group_id", "board", "process_id", "speed"))
        for program, group, board, process, speed in zip(*columns, strict=True):
            self._speeds[program][group] = math.log(speed)
            self._places[group] = (board if isinstance(board, str) else None), process

    def estimate(
        self, weights: Mapping[str, float], *, beside: Iterable[str] = (), board: str | None = None
    ) -> Estimate | None:
        """The sum of weight times logarithm of the speed over programs of one problem, from the groups that timed all
        of them and the programs `beside`, on all boards or on one. None if no group did."""
        values: dict[str | None, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        groups = self._groups([*weights, *beside], board)
        for group in groups:
            where, process = self._places[group]
            total = sum(weight * self._speeds[program][group] for program, weight in weights.items())
            values[where][process].append(total)
        if not groups:
            return None
        means = {
            where: {process: statistics.fmean(several) for process, several in found.items()}
            for where, found in values.items()
        }
        processes, boards = sum(map(len, means.values())), len(means)
        if boards >= FEWEST:
            clusters = {where: (statistics.fmean(found.values()), 1 / boards) for where, found in means.items()}
        else:
            clusters = {
                process: (one, 1 / len(found) / boards) for found in means.values() for process, one in found.items()
            }
        value = math.fsum(one * weight for one, weight in clusters.values())
        if processes < FEWEST:
            return Estimate(value, processes, boards)
        scale = math.sqrt(len(clusters) / (len(clusters) - 1))
        parts = {name: scale * weight * (one - value) for name, (one, weight) in clusters.items()}
        return Estimate(value, processes, boards, parts)

    def ratio(self, ours: str, theirs: str) -> Estimate | None:
        """The logarithm of the speed of one program over another's; None where no group timed both."""
        return self.estimate({ours: 1.0, theirs: -1.0} if ours != theirs else {ours: 0.0})

    def boards(self, programs: Iterable[str]) -> list[str]:
        """The boards on which one group timed all these programs."""
        return sorted({board for group in self._groups(programs) if (board := self._places[group][0])})

    def met(self, programs: Iterable[str], board: str | None = None) -> bool:
        """True if one group timed all these programs, on this board if one is given."""
        return bool(self._groups(programs, board))

    def _groups(self, programs: Iterable[str], board: str | None = None) -> list[Any]:
        groups = set.intersection(*(set(self._speeds.get(program, ())) for program in programs))
        return sorted(group for group in groups if board in (None, self._places[group][0]))


def measured(timing: DataFrame) -> DataFrame:
    """Passed timings with samples (not those of `tune`, which stop early and have no peers beside them), with `log_ms`,
    `group_id`, unique over runs, and `process_id`."""
    table = timing[(timing.purpose == "timing") & (timing.status == "passed") & timing.ms.notna()]
    origin = table.experiment + " " + table.assembler + " " + table.environment.fillna("") + " "
    group = origin + table["group"].fillna("") + " " + table["mode"].fillna("")
    process = table.environment.fillna("") + " " + table["group"].fillna("").str.replace(r"-[^-]*$", "", regex=True)
    return table.assign(log_ms=np.log(table.ms), group_id=group, process_id=process)


class Shifts:
    """How far timings moved, in logarithms of time (positive is slower), and how far their anchors moved."""

    def __init__(self, table: DataFrame) -> None:
        """`table` (of `measured`) holds the whole groups of what will be compared."""
        peers = table[table.name.isna()].drop_duplicates(["group_id", "backend"], keep="last")
        codes = peers.assign(code=peers.program.astype("category").cat.codes)
        self._codes = dict(zip(peers.program, codes.code, strict=True))
        self._programs = codes.pivot(index="group_id", columns="backend", values="code").fillna(-1)
        self._log_ms = codes.pivot(index="group_id", columns="backend", values="log_ms")

    def between(self, old: DataFrame, new: DataFrame) -> tuple[Array, Array]:
        """(time, anchors) of rows that pair up by position; anchors are nan where the groups share no peer."""
        time = new.log_ms.to_numpy() - old.log_ms.to_numpy()
        before, after = (self._programs.reindex(side.group_id, fill_value=-1).to_numpy() for side in (old, new))
        itself = old.program.map(self._codes).fillna(-2).to_numpy()
        common = (before == after) & (before >= 0) & (before != itself[:, None])
        moved = self._log_ms.reindex(new.group_id).to_numpy() - self._log_ms.reindex(old.group_id).to_numpy()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # groups without a common peer
            return time, np.nanmedian(np.where(common, moved, np.nan), axis=1)


def pairs(timing: DataFrame, mode: str = "burst") -> DataFrame:
    """Every pair of timings of one program in two groups, in one mode, older to newer: program, problem, board_old,
    board_new, environment_old, environment_new, one_board, time, anchors, weight. Pairs of a program on the same two
    boards, or on one, weigh 1 together: a board that was used much must not decide. Without kernels that are too short
    to be judged between boards."""
    import pandas

    table = measured(timing[timing["mode"] == mode])
    shifts = Shifts(table)
    table = table.assign(samples=table.samples_ms.map(tuple)).drop_duplicates(["program", "samples"])  # recorded twice
    table = table.sort_values(["program", "time"], kind="stable")
    counts = table.groupby("program", sort=False).size()
    first = counts.cumsum().to_numpy() - counts.to_numpy()
    chosen = [np.triu_indices(count, 1) for count in counts]
    olds, news = (
        np.concatenate([start + one[side] for start, one in zip(first, chosen, strict=True)] or [np.zeros(0, int)])
        for side in (0, 1)
    )
    old, new = table.iloc[olds], table.iloc[news]
    time, anchors = shifts.between(old, new)
    found = pandas.DataFrame({"program": old.program.to_numpy(), "problem": old.problem.to_numpy()})
    for name in ("board", "environment"):
        found[f"{name}_old"], found[f"{name}_new"] = old[name].to_numpy(), new[name].to_numpy()
    found = found.assign(one_board=found.board_old == found.board_new, time=time, anchors=anchors)
    short = np.minimum(old.ms.to_numpy(), new.ms.to_numpy()) < SHORTEST_MS
    apart = old.group_id.to_numpy() != new.group_id.to_numpy()
    found = found[apart & (found.one_board | ~short)]
    boards = np.sort(found[["board_old", "board_new"]].fillna("").to_numpy(str), axis=1)
    place = found.program + " " + boards[:, 0] + " " + boards[:, 1]
    return found.assign(weight=1 / place.groupby(place).transform("size")).reset_index(drop=True)


@dataclass(frozen=True)
class Limits:
    """Logarithms that all but a share of FALSE of the pairs stay below. `alone`: of the time where the groups share no
    peer."""

    time: float
    ratio: float
    both: float
    anchors: float
    alone: float


def limits(found: DataFrame, one_board: bool) -> Limits | None:
    """From those of `pairs` on one board or on two; None if they are too few."""
    found = found[found.one_board == one_board]
    anchored, alone = found[found.anchors.notna()], found[found.anchors.isna()]
    if len(anchored) < FEWEST_PAIRS:
        return None

    def limit(values: Array, weight: Array) -> float:
        level = 1 - FALSE[one_board] / 2
        return float(np.quantile(np.abs(values), level, weights=weight, method="inverted_cdf"))

    time, anchors, weight = (anchored[name].to_numpy() for name in ("time", "anchors", "weight"))
    usual = limit(time, weight)
    return Limits(
        usual,
        limit(time - anchors, weight),
        limit(_smaller(time, time - anchors), weight),
        limit(anchors, weight),
        limit(alone.time.to_numpy(), alone.weight.to_numpy()) if len(alone) >= FEWEST_PAIRS else usual,
    )


AMBIGUOUS = 2
"""Beside 1 (slower), -1 (faster) and 0 (the same): only one of time and ratio moved more than usual."""


def judge(time: Array, anchors: Array, limit: Limits) -> Array:
    """1 slower, -1 faster, 0 the same, AMBIGUOUS, of arrays; `anchors` is nan where there are none."""
    ratio = time - anchors
    verdict = _direction(_smaller(time, ratio), limit.both)
    moved = (np.abs(time) > limit.time) | (np.abs(ratio) > limit.ratio)
    verdict = np.where((verdict == 0) & moved, AMBIGUOUS, verdict)
    verdict = np.where(np.abs(anchors) > limit.anchors, _direction(ratio, limit.ratio), verdict)
    return np.where(np.isnan(anchors), _direction(time, limit.alone), verdict)


def _smaller(time: Array, ratio: Array) -> Array:
    """The one nearer to zero, and zero where the signs differ."""
    return np.where(time * ratio > 0, np.sign(time) * np.minimum(np.abs(time), np.abs(ratio)), 0.0)


def _direction(value: Array, limit: float) -> Array:
    return np.sign(value) * (np.abs(value) > limit)


def _count(number: int, what: str) -> str:
    plural = "es" if what.endswith("s") else "s"
    return f"{number} {what}{plural if number != 1 else ''}"
