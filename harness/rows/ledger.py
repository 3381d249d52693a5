"""How much of the gap between a language's best kernel and the flagship has a cause, from the table of timings.

Sizes are logarithms of speed over speed, so that they add up. A term has one price (operators/<operator>/prices.py);
what all terms leave of the gap is the remainder. Gap, terms and remainder come from the groups that timed every kernel
of the sum, so that they add up exactly.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from harness import operators
from harness.catalog.entries import Tile
from harness.operators.protocol import Problem
from harness.rows import stats
from harness.rows.reading import AGAIN_LIMIT
from harness.rows.stats import Estimate, Interval

if TYPE_CHECKING:
    from pandas import DataFrame

Row = Mapping[str, Any]
COLUMNS = (
    *("name", "technique", "backend", "problem", "tile", "reference_tile", "assembler", "source_sha256", "program"),
    *("status", "reason", "current", "usable", "speed", "ms", "environment", "group", "time", "mode", "case"),
)
"""Of `Ledger.rows`, which also say how many `maxima` the main loop has."""

UNEXPLAINED, LOSS = "unexplained", "loss"
"""Causes: of a term that no proof bears out or whose prices disagree, whatever its sign; of any other that is below
zero."""


def percent(value: float) -> float:
    """The gain in percent that a logarithm stands for: 10 for 0.0953."""
    return 100 * math.expm1(value)


def _side(price: Estimate) -> int:
    """Whether it is a gain, a loss, or no more than two timings of one kernel in one group may differ by."""
    gain = math.expm1(price.value)
    return 0 if abs(gain) < AGAIN_LIMIT else 1 if gain > 0 else -1


@dataclass(frozen=True)
class Line:
    """A term on one problem. `size` is its share of the gap, None if it could not be measured; `why` says what is
    missing. `counts`: false if another term contains it. `prices`: what the size is the mean of."""

    term: Any
    cause: str
    size: Estimate | None
    counts: bool
    why: str = ""
    prices: tuple[Estimate, ...] = ()

    @property
    def disagrees(self) -> bool:
        """True if not all prices are a gain, or all a loss, or all nothing."""
        return len({_side(price) for price in self.prices}) > 1


@dataclass(frozen=True)
class Ledger:
    """The way from `start` to the flagship on one problem, over all boards or on one. `rows`: kernel -> the timing that
    counts; `refused`: kernel -> why it has none; `prices`: what the operator measures terms by."""

    prices: Any
    problem: Problem
    tile: Tile
    rows: Mapping[str, Row]
    refused: Mapping[str, str]
    timings: stats.Timings
    start: str
    board: str | None = None
    overall: Ledger | None = None
    """Of a ledger of one board: the one of all boards."""

    def from_(self, start: str) -> Ledger:
        """The way from another language's kernel."""
        return replace(self, start=start)

    def on(self, board: str) -> Ledger:
        """The same from the processes of one board."""
        return replace(self, board=board, overall=self)

    @cached_property
    def holes(self) -> str:
        """Why kernels have no timing that counts, each reason once: "pingpong and 27 more: not converged"."""
        by_reason: dict[str, list[str]] = defaultdict(list)
        for kernel, why in self.refused.items():
            by_reason[why].append(kernel)
        return "; ".join(
            f"{', '.join(kernels) if len(kernels) < 4 else f'{kernels[0]} and {len(kernels) - 1} more'}: {why}"
            for why, kernels in by_reason.items()
        )

    @cached_property
    def gap(self) -> Estimate | None:
        """The flagship over `start`."""
        return self.estimate({self.prices.FLAGSHIP: 1.0, self.start: -1.0})

    @cached_property
    def lines(self) -> list[Line]:
        """The terms that the flagship has on this problem, in their order."""
        return [self._line(price) for price in self._prices]

    @cached_property
    def remainder(self) -> Estimate | None:
        """The gap less all terms that were measured."""
        weights = defaultdict(float, {self.prices.FLAGSHIP: 1.0, self.start: -1.0})
        for price in self._added:
            for kernel, weight in price.weights.items():
                weights[kernel] -= weight
        return self.estimate(weights)

    @property
    def unexplained(self) -> float:
        """The sizes of the terms without a proven cause, added up whatever their signs."""
        return sum(abs(one.size.value) for one in self.lines if one.counts and one.size and one.cause == UNEXPLAINED)

    @property
    def explained(self) -> tuple[float, Interval] | None:
        """The share of the gap that has a cause, at most 1: less the remainder and the unexplained terms, whatever
        their signs. Its interval is the share at the ends of the remainder's."""
        if self.gap is None or self.remainder is None or self.gap.value <= 0:
            return None
        lost, gap = self.unexplained, self.gap.value

        def share(left: float) -> float:
            return max(0.0, 1 - (left + lost) / gap)

        found = self.remainder.interval
        if found.low is None or found.high is None:
            return share(abs(self.remainder.value)), found
        ends = [abs(math.log(end)) for end in (found.low, found.high)]
        least = 0.0 if found.holds_one else min(ends)
        return share(abs(self.remainder.value)), replace(found, low=share(max(ends)), high=share(least))

    @cached_property
    def shares(self) -> dict[str, float]:
        """Board -> the share of the gap that has a cause there."""
        explained = {board: self.on(board).explained for board in self.boards}
        return {board: share[0] for board, share in explained.items() if share}

    @property
    def boards(self) -> list[str]:
        """The boards whose processes timed the gap."""
        return self.timings.boards(self._programs(self.whole)) if self.gap else []

    def speed(self, kernel: str) -> float | None:
        """The mean over the processes of the gap, so that the ratio of its two ends is the gap."""
        found = self.estimate({kernel: 1.0}) if self.gap else None
        return math.exp(found.value) if found else None

    def estimate(self, weights: Mapping[str, float]) -> Estimate | None:
        """The sum over kernels, from the groups that timed the kernels of the sum too; of Triton's programs by nvcc's
        ptxas, which have groups of their own, over the anchors of these."""
        counted = {kernel: weight for kernel, weight in weights.items() if abs(weight) > 1e-9}
        if not counted or not set(counted) <= set(self.rows):
            return None
        over = self.prices.OVER_ANCHOR
        linked = [self._together({kernel: 1.0, by: -1.0}, set()) for kernel, by in over.items()]
        if over and all(by in counted for by in over.values()):
            return linked[0].minus(linked[1]) if linked[0] and linked[1] else None
        return self._together(counted, self.whole)

    def _together(self, weights: Mapping[str, float], beside: set[str]) -> Estimate | None:
        if not set(weights) <= set(self.rows):
            return None
        of_programs = {self.rows[kernel]["program"]: weight for kernel, weight in weights.items()}
        return self.timings.estimate(of_programs, beside=self._programs(beside), board=self.board)

    @cached_property
    def _prices(self) -> list[Any]:
        return self.prices.prices(self.problem, self.tile, self.start, self.rows)

    @cached_property
    def whole(self) -> set[str]:
        """The kernels of the sum."""
        ends = {self.prices.FLAGSHIP, self.start}
        return ends.union(*(price.weights for price in self._added)) if self._met(ends) else set()

    @cached_property
    def _added(self) -> list[Any]:
        """The prices in the sum: those that some group timed with the gap and all prices before them."""
        whole, found = {self.prices.FLAGSHIP, self.start}, []
        for price in self._prices:
            if price.counts and self._met(whole | set(price.weights)):
                whole |= set(price.weights)
                found.append(price)
        return found

    def _met(self, kernels: set[str]) -> bool:
        return kernels <= set(self.rows) and self.timings.met(self._programs(kernels), self.board)

    def _programs(self, kernels: set[str]) -> list[str]:
        return [self.rows[kernel]["program"] for kernel in kernels]

    def _line(self, price: Any) -> Line:
        size = self.estimate(price.weights)
        missing = [kernel for kernel in price.weights if kernel not in self.rows]
        why = "; ".join(f"{kernel}: {self.refused.get(kernel, 'not measured yet')}" for kernel in missing)
        if not missing and size is None:
            why = f"{' and '.join(price.weights)}: no group timed them with the other terms"
        sizes = tuple(filter(None, map(self.estimate, price.each)))
        line = Line(price.term, price.term.cause, size, price.counts, why, sizes)
        if self.overall:  # one cause on all boards
            return replace(line, cause=self.overall._line(price).cause)
        if line.disagrees:
            return replace(line, cause=UNEXPLAINED)
        is_loss = size is not None and size.value < 0 and line.cause != UNEXPLAINED
        return replace(line, cause=LOSS) if is_loss else line


def ledgers(
    timing: DataFrame,
    code: DataFrame | None = None,
    gate: DataFrame | None = None,
    *,
    timings: stats.Timings | None = None,
) -> list[Ledger]:
    """The ledger of every problem that was timed for an operator's gap, in the operator's order. All tables are of one
    GPU; `code` has the main loops, which only the ways from other languages than the first need; `gate` says
    why a kernel was not timed."""
    timings = timings or stats.Timings(timing)
    found = []
    for operator in operators.every():
        if operator.prices:
            prices = operator.prices()
            rows = timing[(timing.operator == operator.name) & (timing.experiment == prices.EXPERIMENT)]
            rows = rows[(rows.purpose == "timing") & (rows["mode"] != "sustained")].sort_values("time", kind="stable")
            of_problems = {operator.problem.parse(slug): here for slug, here in rows.groupby("problem")}
            for problem in sorted(of_problems, key=prices.place):
                failed = None if gate is None else _failed(gate, operator.name, prices.EXPERIMENT, problem.slug)
                found.append(_ledger(prices, problem, of_problems[problem], code, timings, failed))
    return list(filter(None, found))


def _failed(gate: DataFrame, operator: str, experiment: str, problem: str) -> DataFrame:
    """Gates of this checkout's kernels that did not pass, oldest first."""
    here = gate[(gate.operator == operator) & (gate.experiment == experiment) & (gate.problem == problem)]
    return here[here.current & ~here.status.isin(("passed", "unsupported"))].sort_values("time", kind="stable")


def _ledger(
    prices: Any,
    problem: Problem,
    rows: DataFrame,
    code: DataFrame | None,
    timings: stats.Timings,
    failed: DataFrame | None,
) -> Ledger | None:
    tiles = rows.tile[rows.technique.isin(prices.ablations(problem)) & (rows.tile != "")]
    if tiles.empty:
        return None
    tile = Tile.parse(tiles.iloc[-1])
    found: dict[str, Row] = {}
    refused: dict[str, str] = {}
    if failed is not None:
        for row in failed.to_dict("records"):
            technique = row["technique"] if isinstance(row["technique"], str) else None
            shared = row["assembler"] == "shared"
            if kernel := prices.name(row["backend"], technique, row["tile"], tile, problem, shared):
                refused[kernel] = f"{row['status']}, {row['reason']}"
    maxima = {} if code is None else _maxima(problem, code)
    for row in rows[list(COLUMNS)].to_dict("records"):
        technique = row["technique"] if isinstance(row["technique"], str) else None
        shared = row["assembler"] == "shared"
        kernel = prices.name(row["backend"], technique, row["tile"], tile, problem, shared)
        if kernel is None:
            continue
        if row["usable"]:
            if kernel not in prices.FASTEST or kernel not in found or row["speed"] > found[kernel]["speed"]:
                found[kernel] = row | {"maxima": maxima.get((row["backend"], technique, row["tile"]))}
        elif row["status"] not in ("passed", "unsupported"):  # what the registry declines is no part of the way
            refused[kernel] = f"{row['status']}, {row['reason']}"
        elif not row["current"]:
            refused[kernel] = "only rows of an earlier version of the kernel"
    refused = {kernel: why for kernel, why in refused.items() if kernel not in found}
    return Ledger(prices, problem, tile, found, refused, timings, prices.START)


def _maxima(problem: Problem, code: DataFrame) -> dict[Any, int]:
    """(backend, technique, tile) -> maxima in the main loop of this checkout's kernel."""
    here = code[(code.problem == problem.slug) & code.current & code.main_loop.notna()].sort_values("time")
    columns = zip(here.backend, here.technique, here.tile, here.main_loop, strict=True)
    return {tuple(key): loop["all"]["maxima"] for *key, loop in columns if "all" in loop}
