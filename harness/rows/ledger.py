"""The ledger of a gap, from rows: each term's size, their sum and what is left of the gap.

All sizes are logarithms of TFLOPS over TFLOPS, so that they add up; `percent` makes a gain of one. A term is the mean
of its two prices (catalog.ledger), the remainder the gap less all terms. All are from the groups that timed every
kernel of the sum, so that terms and remainder are the gap exactly.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from harness.catalog import techniques
from harness.catalog.problem import ANCHOR, Problem, Tile
from harness.operators.attention.ablations import ABLATIONS
from harness.operators.attention.gap import (
    CONFINED,
    FLAGSHIP,
    FLOATS,
    LACKING,
    LAZILY,
    ORDERED,
    PLAIN,
    SHARED,
    SQUARE,
    TERMS,
    THEIRS,
    TRITON,
    VOCABULARY,
    WAYS,
    WITH_INTEGERS,
    Term,
    at,
    at_their_tiles,
    shape,
)
from harness.rows import intervals, noise, reading, twins
from harness.rows.intervals import Estimate, Interval
from harness.rows.reading import Hashes, Row

EXPERIMENT = "what_triton_misses"
HEADLINE = Problem.square(4, 16, 4096, 128)
GOAL = 0.9
"""The share of the gap that is to have a cause there: the scorecard's `gap_explained`."""
FASTEST = (*WAYS, SHARED, *THEIRS.values(), VOCABULARY, ORDERED, WITH_INTEGERS)
"""Of these the fastest tile counts."""
Weights = dict[str, float]
"""Kernel of `Ledger.rows` -> how often the logarithm of its TFLOPS counts."""


def percent(value: float) -> float:
    """The gain in percent that a logarithm stands for: 10 for 0.0953."""
    return 100 * math.expm1(value)


@dataclass(frozen=True)
class Priced:
    """A term on one problem. `size` is its share of the gap, None where none of its prices could be measured; `why`
    says so, or which price is missing. `alone`: the flagship without it; `added`: the ladder with it; `own`: what the
    kernel from which the way starts gains by it; `limited`: what a CUDA kernel limited to the same language gains by it
    then, which is taken out."""

    term: Term
    cause: str
    size: Estimate | None
    alone: Estimate | None
    added: Estimate | None
    disagreement: Estimate | None
    own: Estimate | None
    limited: Estimate | None
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
    each kernel at the flagship's tile or at another that a term names, and of FASTEST the fastest."""

    problem: Problem
    tile: Tile
    rows: Mapping[str, Row]
    refused: Mapping[str, str]
    """Kernel -> why it has no number."""
    known: intervals.Intervals
    elsewhere: twins.Twins
    """The kernels of other experiments."""
    maxima: Mapping[tuple[str, str], int]
    """Kernel and tile -> maxima in its main loop."""
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
        """TFLOPS of a kernel: the mean over the processes of the gap, so that the ratio of its two ends is the gap."""
        speed = self._estimate({name: 1.0})
        return self.problem.tflops(math.exp(-speed.value)) if speed and self.gap else None

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
    def shares(self) -> dict[str, float]:
        """Board -> the share of the gap that has a cause there."""
        explained = {board: self.on(board).explained for board in self.boards}
        return {board: share[0] for board, share in explained.items() if share}

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

    def twins(self, term: Term) -> list[twins.Step]:
        """What the techniques of a term gain where the language of the way has them, on all boards; none of those that
        the flagship does without on this problem. Of a term about a tile, what the flagship's shape gains there."""
        if term.of_tile:
            row = self.rows.get(self.start)
            best = Tile.from_dict(row["tile"]) if row else self.tile
            return self.elsewhere.tile_step(self.start, self.problem, self.tile, best)
        core = self.from_(TRITON)
        without = {one.step[0] for one in TERMS if one.step and not core._applies(one)}
        return [one for one in self.elsewhere.steps(term, self.start, self.problem) if one.to not in without]

    def from_(self, start: str) -> Ledger:
        """The way from another language's kernel, a key of WAYS."""
        return replace(self, way=WAYS[start], start=start)

    @property
    def boards(self) -> list[str]:
        """The boards of the processes that timed the gap."""
        return self.known.boards([self.rows[name] for name in self._whole]) if self.gap else []

    def on(self, board: str) -> Ledger:
        """The same from the processes of one board."""
        return replace(self, board=board)

    @cached_property
    def _added(self) -> dict[str, Weights]:
        """What each term adds, by its name, as weights in one group: nvcc's assembler is the compiler's term there. A
        price that no group timed with the gap and all prices before it is not in the sum."""
        found: dict[str, Weights] = {}
        whole = self._ends
        for term in self.way:
            if not self._applies(term) or term.part_of:
                continue
            prices = []
            for weights in filter(None, self._prices(term)):
                if self._met(whole | set(weights)):
                    whole |= set(weights)
                    prices.append(weights)
            limited = self.limited(term)
            if prices and self._met(whole | set(limited)):
                whole |= set(limited)
                found[term.name] = _sum([_mean(prices), _times(limited, -1)])
        return found

    @cached_property
    def _ends(self) -> set[str]:
        """The two kernels of the gap, where a group timed both."""
        ends = {FLAGSHIP, self.start}
        return ends if self._met(ends) else set()

    @cached_property
    def _whole(self) -> set[str]:
        """The kernels of the sum. Whatever is estimated comes from the groups that timed all of them."""
        return self._ends.union(*self._added.values())

    def _met(self, names: set[str]) -> bool:
        """Whether one group timed all these kernels, on the ledger's board if it is of one."""
        return names <= set(self.rows) and self.known.met([self.rows[name] for name in names], self.board)

    def _applies(self, term: Term) -> bool:
        """Whether the flagship has it on this problem: else the registry declines the ablation. What Gluon's or TLX's
        kernel lacks, and at which tile, is not known before that is timed."""
        if term.head_dim not in (None, self.problem.head_dim) or (term.part_of and self._has_integers):
            return False
        if term.of_tile:
            return self._is_square
        if not term.leave_out:
            return True
        if self.start != TRITON and self.start not in self.rows:
            return False
        left_out = self._lacks(term.leave_out)
        return left_out != FLAGSHIP and self._takes(left_out)

    def _takes(self, name: str) -> bool:
        """Whether the registry takes a CUDA kernel on this problem: the flagship without what it does not have."""
        return techniques.unsupported(techniques.get(name), "cuda", self.problem, self.tile) is None

    @property
    def _other_start(self) -> Row | None:
        """The kernel from which a way from another language than core Triton starts, where it was timed."""
        return self.rows.get(self.start) if self.start != TRITON else None

    @cached_property
    def _has_integers(self) -> bool:
        """Whether the kernel from which a way from another language than core Triton starts has maxima of integers: its
        main loop has fewer maxima than a thread has scores."""
        row = self._other_start
        maxima = self.maxima.get((self.start, reading.tile_slug(row))) if row else None
        return row is not None and maxima is not None and maxima < row["tile"]["block_n"] // 2

    @cached_property
    def _is_square(self) -> bool:
        """Whether a way from another language than core Triton starts from a kernel of SQUARE's shape, and the flagship
        has another."""
        row = self._other_start
        return row is not None and shape(Tile.from_dict(row["tile"])) == shape(SQUARE) != shape(self.tile)

    def _lacks(self, name: str) -> str:
        """An ablation: of LACKING what the language's kernel does lack, which is less where that has maxima of
        integers."""
        if name != LACKING or not self._has_integers:
            return name
        return LAZILY if self._takes(LAZILY) else FLAGSHIP

    def _placed(self, name: str) -> str:
        """The flagship or an ablation, at the tile at which the way leaves something out."""
        return at(name, SQUARE) if self._is_square else name

    def kernel(self, end: str) -> str:
        """What an end of a step is in `rows`: of LACKING what the language's kernel lacks, at the shape of its tile."""
        if end == SHARED:
            return TRITON
        if end == CONFINED:
            return WITH_INTEGERS if self._is_beside(FLOATS) else ORDERED
        return self._placed(self._lacks(end)) if end == LACKING else end

    def _is_beside(self, name: str) -> bool:
        """Whether a kernel of core Triton is timed beside its best one on this problem."""
        return (name, TRITON) in {(kernel, *language) for kernel, _, *language in at_their_tiles(self.problem)}

    def left_out(self, term: Term) -> tuple[str, ...]:
        """The flagship and what it is compared with, as `rows` have them; empty where a term leaves nothing out."""
        if not term.leave_out:
            return ()
        return self._placed(FLAGSHIP), self._placed(self._lacks(term.leave_out))

    def _prices(self, term: Term) -> tuple[Weights | None, Weights | None]:
        """(without, added) of a term; None for what it does not have, or what is not in one group."""
        alone = dict(zip(self.left_out(term), (1.0, -1.0), strict=True)) if term.leave_out else None
        if term.step is None or term.step[0] == SHARED:
            return alone, None
        to, start = map(self.kernel, term.step)
        step = {to: 1.0, start: -1.0}
        return (step, None) if to == FLAGSHIP else (alone, step)

    def own(self, term: Term) -> Weights:
        """What the language's own kernel gains by a term's technique, where it has it."""
        if term.own is None:
            return {}
        to, start = (TRITON if name == PLAIN and not self._is_beside(FLOATS) else name for name in term.own)
        return {to: 1.0, start: -1.0} if to != start else {}

    def limited(self, term: Term) -> Weights:
        """What a CUDA kernel limited to the same language gains by it then."""
        return dict(zip(term.limited, (1.0, -1.0), strict=True)) if term.limited and self.own(term) else {}

    def alike(self, term: Term) -> list[Estimate | None]:
        """What a term's technique gains in each pair of kernels limited to what core Triton can express."""
        return [self._estimate({to: 1.0, start: -1.0}, beside=()) for to, start in term.alike]

    def _cause(self, term: Term, size: Estimate | None) -> str:
        """A term's cause on this problem, on all boards the same. What its technique gains elsewhere is compared with
        its price in all processes that timed the kernels of both, whether they timed the gap or not."""
        own = self.own(term)
        if not (term.more if own else term.alike):
            return term.cause_at(self.tile)
        if self.board:
            return replace(self, board=None)._priced(term).cause
        if own:
            return term.more if size and size.value > 0 else term.cause_at(self.tile)
        price = self._estimate(_mean([one for one in self._prices(term) if one]), beside=())
        low = price.interval.low if price else None
        highs = (one.interval.high for one in self.alike(term) if one)
        high = next((high for high in highs if high is not None), None)
        return "unexplained" if high is None or low is None or high >= low else term.cause_at(self.tile)

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
        if without and with_it and alone and added:
            size = self._estimate(_mean([without, with_it]))
            apart = self._estimate(_sum([without, _times(with_it, -1)]))
        own, limited = self.own(term), self.limited(term)
        if size and limited:
            size = self._estimate(_sum([_mean([one for one in (without, with_it) if one]), _times(limited, -1)]))
        gained = self._estimate(own, beside=()) if own else None
        out = self._estimate(limited) if limited else None
        return Priced(term, self._cause(term, size), size, alone, added, apart, gained, out, self._why(term))

    def _why(self, term: Term) -> str:
        """Which of its kernels have no number, or none beside the others; empty where all have."""
        told: list[str] = []
        for weights in filter(None, (*self._prices(term), self.limited(term))):
            missing = [name for name in weights if name not in self.rows]
            told += [f"{name}: {self.refused.get(name, 'not measured yet')}" for name in missing]
            if not missing and not self._met(self._whole | set(weights)):
                told.append(f"{' and '.join(weights)}: no group timed them with the other terms")
        if term.step and SHARED in term.step and SHARED not in self.rows:
            told.append(f"{SHARED}: {self.refused.get(SHARED, 'not measured yet')}")
        return "; ".join(dict.fromkeys(told))

    @cached_property
    def _assembler(self) -> Estimate | None:
        """Triton by nvcc's ptxas over Triton as it is, each over the anchor of its own group."""
        shared = self._estimate({SHARED: 1, f"{ANCHOR}, shared": -1}, beside=())
        bundled = self._estimate({TRITON: 1, ANCHOR: -1}, beside=())
        return shared.minus(bundled) if shared and bundled else None

    def _estimate(self, weights: Weights, beside: Collection[str] | None = None) -> Estimate | None:
        """From the groups that timed the kernels `beside` too, by default those of the sum."""
        counted = {name: weight for name, weight in weights.items() if abs(weight) > 1e-9}
        others = self._whole if beside is None else beside
        counted |= {name: 0.0 for name in others if name not in counted}  # last: their set has an order of its own
        if not counted or not set(counted) <= set(self.rows):
            return None
        return self.known.estimate([(self.rows[name], weight) for name, weight in counted.items()], self.board)


def ledgers(rows: Iterable[Row], hashes: Hashes) -> list[Ledger]:
    """The ledger of every problem of the experiment that has a row, in the experiment's order. `rows` are of one
    GPU."""
    all_rows = list(rows)
    own = [row for row in all_rows if (row.get("experiment") or "").removesuffix(reading.SHARED_PTXAS) == EXPERIMENT]
    known = intervals.Intervals(noise.Timings([*(row for row in all_rows if row["kind"] == "environment"), *own]))
    elsewhere = twins.Twins(all_rows, hashes)
    by_problem: dict[str, list[Row]] = defaultdict(list)
    for row in own:
        by_problem[reading.slug(row)].append(row)
    found = (_ledger(slug, here, hashes, known, elsewhere) for slug, here in sorted(by_problem.items(), key=_place))
    return list(filter(None, found))


def _ledger(
    slug: str, rows: list[Row], hashes: Hashes, known: intervals.Intervals, elsewhere: twins.Twins
) -> Ledger | None:
    ordered, problem = sorted(rows, key=lambda row: row["time"]), Problem.parse(slug)
    others = {(name, other) for name, other, *language in at_their_tiles(problem) if not language}
    names = {one.name for one in ABLATIONS if one.lacks} - {name for name, _ in others}
    tiles = [Tile.from_dict(row["tile"]) for row in ordered if row.get("technique") in names and row.get("tile")]
    if not tiles:
        return None
    tile = tiles[-1]
    found: dict[str, Row] = {}
    refused: dict[str, str] = {}
    maxima: dict[tuple[str, str], int] = {}
    for row in ordered:
        name = _kernel(row, tile, others)
        if row["kind"] not in ("gate", "timing") or row.get("mode") == "sustained" or name is None:
            continue
        loop = (row.get("code") or {}).get("main_loop") or {}
        if "all" in loop and reading.is_current(row, hashes):
            maxima[name, reading.tile_slug(row)] = loop["all"]["maxima"]
        if row["kind"] == "timing" and reading.counts(row, hashes):
            if name not in FASTEST or name not in found or reading.tflops(row) > reading.tflops(found[name]):
                found[name] = row
        elif row["status"] not in ("passed", "unsupported"):  # what the registry declines is no part of this way
            refused[name] = f"{row['status']}, {row.get('reason')}"
        elif not reading.is_current(row, hashes):
            refused[name] = "only rows of an earlier version of the kernel"
    refused = {name: why for name, why in refused.items() if name not in found}
    return Ledger(problem, tile, found, refused, known, elsewhere, maxima)


def _kernel(row: Row, tile: Tile, others: Collection[tuple[str, Tile]]) -> str | None:
    """The name in `Ledger.rows` under which a row counts, if it does. `others`: kernels at other tiles."""
    backend, technique = row["backend"], row.get("technique")
    shared = "" if reading.is_as_shipped(row) and not row["experiment"].endswith(reading.SHARED_PTXAS) else ", shared"
    if backend == TRITON and technique in THEIRS:
        return None if shared else THEIRS[technique]
    if backend in (ANCHOR, *WAYS):
        return f"{backend}{shared}"
    if backend != "cuda" or shared or technique is None:
        return None
    own = Tile.from_dict(row["tile"])
    if technique in (VOCABULARY, ORDERED, WITH_INTEGERS) or own == tile:
        return technique
    return at(technique, own) if (technique, own) in others else None


def _place(one: tuple[str, Any]) -> tuple[int, int, bool]:
    problem = Problem.parse(one[0])
    return problem.seq_q, -problem.head_dim, problem.causal


def _is_certain(estimate: Estimate) -> bool:
    """Whether it has an interval, and that does not hold 0."""
    return estimate.draws is not None and not estimate.interval.is_no_change


def _times(weights: Weights | None, factor: float) -> Weights:
    return {name: factor * weight for name, weight in (weights or {}).items()}


def _mean(several: Collection[Weights]) -> Weights:
    return _sum([_times(weights, 1 / len(several)) for weights in several])


def _sum(several: Iterable[Weights | None]) -> Weights:
    total: Weights = defaultdict(float)
    for weights in several:
        for name, weight in (weights or {}).items():
            total[name] += weight
    return dict(total)
