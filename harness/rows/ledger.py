"""The ledger of a gap, from rows: each term's size, their sum and what is left of the gap.

All sizes are logarithms of TFLOPS over TFLOPS, so that they add up; `percent` makes a gain of one. A term is the mean
of its two prices (catalog.ledger), the remainder the gap less all terms, from the samples of the same processes.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from harness.catalog import techniques
from harness.catalog.ablations import ABLATIONS
from harness.catalog.ledger import FLAGSHIP, GLUON, GLUON_TERMS, SHARED, TERMS, TRITON, VOCABULARY, Term
from harness.catalog.problem import ANCHOR, Problem, Tile
from harness.rows import intervals, noise, reading
from harness.rows.intervals import Estimate, Interval
from harness.rows.reading import Hashes, Row

EXPERIMENT = "what_triton_misses"
HEADLINE = Problem.square(4, 16, 4096, 128)
"""The problem of the scorecard's `gap_explained`."""
Weights = dict[str, float]
"""Kernel of `Ledger.rows` -> how often the logarithm of its TFLOPS counts."""


def percent(value: float) -> float:
    """The gain in percent that a logarithm stands for: 10 for 0.0953."""
    return 100 * math.expm1(value)


@dataclass(frozen=True)
class Priced:
    """A term on one problem. `size` is its share of the gap, None where none of its prices could be measured; `why`
    says so, or which price is missing. `alone`: the flagship without it; `added`: the ladder with it."""

    term: Term
    cause: str
    size: Estimate | None
    alone: Estimate | None
    added: Estimate | None
    disagreement: Estimate | None
    why: str = ""

    @property
    def interacts(self) -> bool:
        """Whether its two prices differ beyond their intervals."""
        return self.disagreement is not None and _is_certain(self.disagreement)


@dataclass(frozen=True)
class Pair:
    """Two techniques left out together: `size` of both, `beyond` what that is more than each alone."""

    names: tuple[str, ...]
    size: Estimate
    beyond: Estimate

    @property
    def interacts(self) -> bool:
        return _is_certain(self.beyond)


@dataclass(frozen=True)
class Ledger:
    """A problem's ledger, on all boards or on one: the `way` from `start` to the flagship. `rows` are the newest row of
    each kernel at the flagship's tile, and of TRITON, SHARED, VOCABULARY and GLUON the fastest."""

    problem: Problem
    tile: Tile
    rows: Mapping[str, Row]
    refused: Mapping[str, str]
    """Kernel -> why it has no number."""
    known: intervals.Intervals
    board: str | None = None
    way: tuple[Term, ...] = TERMS
    start: str = TRITON

    @cached_property
    def gap(self) -> Estimate | None:
        """Flagship over `start`."""
        return self._estimate({FLAGSHIP: 1, self.start: -1})

    @cached_property
    def terms(self) -> list[Priced]:
        """The terms that the flagship has on this problem, in the order of the way."""
        return [self._priced(term) for term in self.way if self._applies(term)]

    @cached_property
    def remainder(self) -> Estimate | None:
        """The gap less all terms that have a size."""
        return self._estimate(_sum([{FLAGSHIP: 1, self.start: -1}, *(_times(one, -1) for one in self._added.values())]))

    @cached_property
    def causes(self) -> dict[str, Estimate]:
        """Cause -> what its terms add up to, the largest first."""
        weights: dict[str, list[Weights]] = defaultdict(list)
        for one in self.terms:
            if one.term.name in self._added:
                weights[one.cause].append(self._added[one.term.name])
        sums = {cause: self._estimate(_sum(several)) for cause, several in weights.items()}
        found = {cause: size for cause, size in sums.items() if size}
        return dict(sorted(found.items(), key=lambda one: -abs(one[1].value)))

    def tflops(self, name: str) -> float | None:
        """TFLOPS of `start` or the flagship: the mean over the processes that timed both, so that their ratio is the
        gap."""
        if not {self.start, FLAGSHIP} <= set(self.rows):
            return None
        other = FLAGSHIP if name == self.start else self.start
        speed = self.known.estimate([(self.rows[name], 1.0), (self.rows[other], 0.0)], self.board)
        return self.problem.tflops(math.exp(-speed.value)) if speed else None

    @property
    def explained(self) -> tuple[float, Interval] | None:
        """The share of the gap that has a cause, at most 1: less the remainder and the unexplained terms, whatever
        their signs. Its interval is that at the ends of the remainder's."""
        if self.gap is None or self.remainder is None or self.gap.value <= 0:
            return None
        unexplained = sum(
            abs(one.size.value)
            for one in self.terms
            if one.size and one.cause == "unexplained" and not one.term.part_of
        )

        def share(left: float) -> float:
            return max(0.0, 1 - (abs(left) + unexplained) / gap.value)

        gap, found = self.gap, self.remainder.interval
        if found.low is None or found.high is None:
            return share(self.remainder.value), found
        ends = math.log(found.low), math.log(found.high)
        best = 0.0 if ends[0] <= 0 <= ends[1] else min(map(abs, ends))
        return share(self.remainder.value), Interval(
            share(max(map(abs, ends))), share(best), found.processes, found.boards
        )

    @cached_property
    def pairs(self) -> list[Pair]:
        found = []
        for ablation in ABLATIONS:
            if len(ablation.lacks) != 2:
                continue
            both = {FLAGSHIP: 1.0, ablation.name: -1.0}
            each = [{FLAGSHIP: 1.0, f"without_{name}": -1.0} for name in ablation.lacks]
            size = self._estimate(both)
            beyond = self._estimate(_sum([both, *(_times(one, -1) for one in each)]))
            if size and beyond:
                found.append(Pair(ablation.lacks, size, beyond))
        return found

    @property
    def from_gluon(self) -> Ledger | None:
        """The way from the best Gluon kernel, where there is one."""
        return replace(self, way=GLUON_TERMS, start=GLUON) if GLUON in self.rows else None

    @property
    def boards(self) -> list[str]:
        """The boards of the processes that timed the gap."""
        return self.known.boards([self.rows[name] for name in (FLAGSHIP, self.start)]) if self.gap else []

    def on(self, board: str) -> Ledger:
        """The same from the processes of one board."""
        return replace(self, board=board)

    @cached_property
    def _added(self) -> dict[str, Weights]:
        """What each term adds, by its name, as weights in one group: nvcc's assembler is the compiler's term there."""
        found: dict[str, Weights] = {}
        for term in self.way:
            if not self._applies(term) or term.part_of:
                continue
            prices = [weights for weights in self._prices(term) if weights and self._estimate(weights)]
            if prices:
                found[term.name] = _sum([_times(weights, 1 / len(prices)) for weights in prices])
        return found

    def _applies(self, term: Term) -> bool:
        """Whether the flagship has it on this problem: else the registry declines the ablation."""
        if not term.leave_out:
            return True
        return techniques.unsupported(techniques.get(term.leave_out), "cuda", self.problem, self.tile) is None

    def _prices(self, term: Term) -> tuple[Weights | None, Weights | None]:
        """(without, added) of a term; None for what it does not have, or what is not in one group."""
        alone = {FLAGSHIP: 1.0, term.leave_out: -1.0} if term.leave_out else None
        if term.step is None or SHARED in (term.step[0], FLAGSHIP):
            return alone, None
        to, start = (TRITON if end == SHARED else end for end in term.step)
        return alone, _sum([{to: 1.0}, {start: -1.0}])

    def _priced(self, term: Term) -> Priced:
        without, with_it = self._prices(term)
        alone, added = (self._estimate(weights) if weights else None for weights in (without, with_it))
        if term.step and SHARED in term.step:
            assembler = self._assembler
            if term.step[0] == SHARED:
                added = assembler
            elif added and assembler:
                added = added.minus(assembler)
        size, apart = alone or added, None
        if alone and added:
            size = self._estimate(self._added[term.name])
            apart = self._estimate(_sum([without, _times(with_it, -1)]))
        named = (name for weights in (without, with_it) for name in weights or ())
        missing = dict.fromkeys(name for name in named if name not in self.rows)
        if term.step and SHARED in term.step and SHARED not in self.rows:
            missing[SHARED] = None
        why = "; ".join(f"{name}: {self.refused.get(name, 'not measured')}" for name in missing)
        return Priced(term, term.cause_at(self.tile), size, alone, added, apart, why)

    @cached_property
    def _assembler(self) -> Estimate | None:
        """Triton by nvcc's ptxas over Triton as it is, each over the anchor of its own group."""
        shared = self._estimate({SHARED: 1, f"{ANCHOR}, shared": -1})
        bundled = self._estimate({TRITON: 1, ANCHOR: -1})
        return shared.minus(bundled) if shared and bundled else None

    def _estimate(self, weights: Weights) -> Estimate | None:
        counted = {name: weight for name, weight in weights.items() if abs(weight) > 1e-9}
        if not set(counted) <= set(self.rows):
            return None
        if not counted:  # all cancel: nothing is left
            return self.gap and self.gap.times(0)
        return self.known.estimate([(self.rows[name], weight) for name, weight in counted.items()], self.board)


def ledgers(rows: Iterable[Row], hashes: Hashes) -> list[Ledger]:
    """The ledger of every problem of the experiment that has a row, in the experiment's order. `rows` are of one
    GPU."""
    all_rows = list(rows)
    own = [row for row in all_rows if (row.get("experiment") or "").removesuffix(reading.SHARED_PTXAS) == EXPERIMENT]
    known = intervals.Intervals(noise.Timings([*(row for row in all_rows if row["kind"] == "environment"), *own]))
    by_problem: dict[str, list[Row]] = defaultdict(list)
    for row in own:
        by_problem[reading.slug(row)].append(row)
    return [
        found for slug, here in sorted(by_problem.items(), key=_place) if (found := _ledger(slug, here, hashes, known))
    ]


def _ledger(slug: str, rows: list[Row], hashes: Hashes, known: intervals.Intervals) -> Ledger | None:
    ordered = sorted(rows, key=lambda row: row["time"])
    names = {one.name for one in ABLATIONS} - {VOCABULARY}
    at = [Tile.from_dict(row["tile"]) for row in ordered if row.get("technique") in names and row.get("tile")]
    if not at:
        return None
    tile = at[-1]
    found: dict[str, Row] = {}
    refused: dict[str, str] = {}
    for row in ordered:
        name = _kernel(row, tile)
        if row["kind"] not in ("gate", "timing") or row.get("mode") == "sustained" or name is None:
            continue
        if row["kind"] == "timing" and reading.counts(row, hashes):
            is_chosen = name in (TRITON, SHARED, VOCABULARY, GLUON) and name in found
            if not is_chosen or reading.tflops(row) > reading.tflops(found[name]):
                found[name] = row
        elif row["status"] not in ("passed", "unsupported"):  # what the registry declines is no part of this way
            refused[name] = f"{row['status']}, {row.get('reason')}"
        elif not reading.is_current(row, hashes):
            refused[name] = "only rows of an earlier version of the kernel"
    refused = {name: why for name, why in refused.items() if name not in found}
    return Ledger(Problem.parse(slug), tile, found, refused, known)


def _kernel(row: Row, tile: Tile) -> str | None:
    """The name in `Ledger.rows` under which a row counts, if it does."""
    backend, technique = row["backend"], row.get("technique")
    shared = "" if reading.is_as_shipped(row) and not row["experiment"].endswith(reading.SHARED_PTXAS) else ", shared"
    if backend in (ANCHOR, "triton", "gluon"):
        return f"{backend}{shared}"
    if backend != "cuda" or shared:
        return None
    return technique if technique == VOCABULARY or Tile.from_dict(row["tile"]) == tile else None


def _place(one: tuple[str, Any]) -> tuple[int, int, bool]:
    problem = Problem.parse(one[0])
    return problem.seq_q, -problem.head_dim, problem.causal


def _is_certain(estimate: Estimate) -> bool:
    """Whether it has an interval, and that does not hold 0."""
    return estimate.draws is not None and not estimate.interval.is_no_change


def _times(weights: Weights | None, factor: float) -> Weights:
    return {name: factor * weight for name, weight in (weights or {}).items()}


def _sum(several: Iterable[Weights | None]) -> Weights:
    total: Weights = defaultdict(float)
    for weights in several:
        for name, weight in (weights or {}).items():
            total[name] += weight
    return dict(total)
