"""How far two timings of one program lie apart though nothing changed, from the replicates among recorded rows.

A replicate is the same program on the same problem, timed in two interleaved groups: same technique, backend, tile,
source, compiler, libraries and driver. Most come from several experiments that time one kernel, and from library peers,
which stand in many groups. Pairs on one board and pairs on two boards are two kinds of noise.

Two things are known of a pair. Its *time* moved: the logarithm of new over old median milliseconds. Its *anchors*
moved, the library peers that both groups hold (their median, the case itself apart); what is left of the time without
them is the *ratio*. Neither is steady alone: between boards cuDNN moves by more than our kernels do, so that the ratio
is noisier than the time, and where a clock is locked lower the time says nothing. So:

- where the anchors moved no more than replicates' anchors do, a change counts when time and ratio both show it: of the
  two the smaller counts, and nothing where their signs differ;
- where they moved further, it is the machine that moved, and the ratio alone decides;
- where no anchor is in both groups (the rows of `tune`, and the anchor itself), the time alone decides.

Each limit is a quantile of the same statistic over replicates; every program weighs the same, or the peers would be
all there is. What is promised is typed (PROMISED), the rest is data: which quantile, too. Of LEVELS that one is taken
which comes nearest to both promises, false verdicts and slowdowns found, on problems that its limits have not seen;
between boards the anchor's own limit has a level of its own, chosen on its pairs. Shares of verdicts are of programs on
boards: however often two boards timed a program, their pairs count as one, or a board that was used much would decide.

Two events read a gap beside the kernel, a few microseconds that are the host's own: rows by CUPTI tell it. Between
two boards a kernel so short that the difference of two gaps could be half of a planted slowdown is not judged.

`trial` holds out what it judges, from the choice of the quantile as well: a pair is judged by what others say, without
any pair of its fifth of the problems (pairs of one problem share their anchors' samples) or, a second table, without
any pair that touches a board of the fifths that its two boards are in.
"""

from __future__ import annotations

import json
import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from harness import operators
from harness.operators.protocol import Problem
from harness.rows import reading, results
from harness.rows.reading import Row, median_ms, page, problem_of

Array = Any
"""A numpy array."""


@dataclass(frozen=True)
class Promise:
    """Of verdicts on pairs: at most the share `false` called slower or faster where nothing changed, and at least the
    share `found` of slowdowns by `planted` called slower."""

    false: float
    planted: float
    found: float = 0.95


PROMISED = {True: Promise(false=0.01, planted=0.03), False: Promise(false=0.02, planted=0.05)}
"""On one board, on two."""
LEVELS = tuple(1 - 0.04 / 2 ** (half / 2) for half in range(12))
"""Shares of replicate pairs that a limit may let pass, of which one is chosen: from 96% to 99.9%."""
FEWEST = math.ceil(1 / PROMISED[True].false)
"""Pairs below which no limit can keep what is promised."""
PARTS = 5
"""Parts that problems and boards are dealt into; one after the other is held out."""
EXPECTED = f"at least {FEWEST} with anchors whichever {PARTS}th of their problems is left out"
"""Of pairs, that there are limits."""
AMBIGUOUS = 2
"""A verdict like 1 (slower), -1 (faster) and 0 (the same): of time and ratio only one moved by more than noise."""

STATISTICS = ("time", "ratio", "both", "anchors", "anchor")
"""Whose limits a Noise holds, in this order."""

PROGRAM = ("technique", "backend", "problem", "tile", "mode", "arch", "source_sha256", "compiler")
LIBRARIES = ("torch", "cuda_runtime", "cudnn", "triton")
OWN_LIBRARY = {"fa2": "flash-attn", "fa3": "flash-attn-3", "fa4": "flash-attn-4"}
"""A peer's own, beside those that all share."""


class Timings:
    """Timing rows with their groups and boards. `rows` hold environments and whatever else; those of `tune` do not
    count: it stops as soon as tiles can be told apart, and times no library beside them."""

    def __init__(self, rows: Iterable[Row]) -> None:
        rows = list(rows)
        self.environments = {row["id"]: row.get("details") or {} for row in rows if row["kind"] == "environment"}
        self.rows = [
            row for row in rows if results.what(row) == "timing" and row["status"] == "passed" and row.get("samples_ms")
        ]
        self._programs = {id(row): self._program(row) for row in self.rows}
        self._peers: dict[Any, dict[str, float]] = defaultdict(dict)
        for row in self.rows:
            if not row.get("technique"):
                self._peers[group(row)][self.program(row)] = log_ms(row)
        self._gaps: dict[str | None, list[float]] = defaultdict(list)
        for row in rows:
            if "gap_ms" in (row.get("details") or {}):
                self._gaps[self.board(row)].append(row["details"]["gap_ms"])

    @cached_property
    def gaps(self) -> list[float]:
        """Of each board timed by CUPTI, what two events read beside a kernel: the median in ms, the least first."""
        return sorted(map(statistics.median, self._gaps.values()))

    def shortest_ms(self, one_board: bool) -> float:
        """Below this a timing is not judged; 0 on one board, and where fewer than two boards are timed by CUPTI."""
        gaps = self.gaps
        return 0.0 if one_board or not gaps else (gaps[-1] - gaps[0]) / (PROMISED[False].planted / 2)

    def board(self, row: Row) -> str | None:
        """Which board of its kind timed the row; None where that was not recorded."""
        return reading.board(self._details(row))

    def program(self, row: Row) -> str:
        """A key that replicates share."""
        known = self._programs.get(id(row))  # no other row has it: `rows` keep theirs alive
        return self._program(row) if known is None else known

    def _program(self, row: Row) -> str:
        details = self._details(row)
        software, gpu = details.get("software") or {}, details.get("gpu") or {}
        libraries = (*LIBRARIES, OWN_LIBRARY.get(row["backend"].partition("@")[0]))
        around = [gpu.get("name"), gpu.get("driver"), *(software.get(name) for name in libraries)]
        return json.dumps([*(row.get(name) for name in PROGRAM), *around], sort_keys=True)

    def peers(self, row: Row) -> Mapping[str, float]:
        """Program -> logarithm of the median ms of the library peers in the row's own group."""
        return self._peers.get(group(row), {})

    def _details(self, row: Row) -> Mapping[str, Any]:
        return self.environments.get(row.get("environment", ""), {})


@dataclass(frozen=True)
class Shift:
    """How far a case moved, in logarithms of time: positive is slower. `anchors` is None where both groups have no
    library peer in common; `is_anchor` says that others are compared with it."""

    time: float
    anchors: float | None
    one_board: bool
    is_anchor: bool = False

    @property
    def ratio(self) -> float | None:
        return None if self.anchors is None else self.time - self.anchors


@dataclass(frozen=True)
class Timed:
    """What a shift needs of a row: the logarithms of its median ms and of its group's library peers, itself apart."""

    log_ms: float
    peers: Mapping[str, float]
    board: str | None
    is_anchor: bool


def timed(row: Row, timings: Timings) -> Timed:
    """What `shift` needs of a row. `timings` hold its group."""
    itself = timings.program(row)
    peers = {name: value for name, value in timings.peers(row).items() if name != itself}
    return Timed(log_ms(row), peers, timings.board(row), row["backend"] in operators.anchors())


def shift(base: Timed, new: Timed) -> Shift:
    """From one timing of a program to another; over the anchors that both groups have."""
    anchors = [new.peers[name] - base.peers[name] for name in base.peers if name in new.peers]
    return Shift(
        new.log_ms - base.log_ms,
        statistics.median(anchors) if anchors else None,
        base.board is not None and base.board == new.board,
        base.is_anchor,
    )


@dataclass(frozen=True)
class Replicates:
    """Pairs of rows of one program, older to newer: arrays of one length. Programs, problems and boards are numbers,
    environments their ids."""

    program: Array
    problem: Array
    boards: Array  # (pairs, 2)
    environments: Array  # (pairs, 2)
    one_board: Array
    is_anchor: Array
    is_twin: Array
    time: Array
    anchors: Array  # nan where there are none

    def __len__(self) -> int:
        return len(self.time)

    @property
    def weight(self) -> Array:
        """Of each pair: those of a program on the same two boards, or on one, weigh 1 together."""
        places = np.column_stack([self.program, np.sort(self.boards, axis=1)])
        _, number, count = np.unique(places, axis=0, return_inverse=True, return_counts=True)
        return 1 / count[number.reshape(-1)]

    def where(self, mask: Array) -> Replicates:
        """The pairs for which `mask`, bool of their length, is true."""
        return Replicates(*(getattr(self, name)[mask] for name in self.__dataclass_fields__))


def replicates(timings: Timings, mode: str = "burst") -> Replicates:
    """Every pair of passed rows of one program in two groups, timed in this mode: at the power cap times swing by more
    than on a cool card, and the two tell nothing of each other. Without those too short to be judged."""
    programs: dict[str, list[Row]] = defaultdict(list)
    for row in sorted(timings.rows, key=lambda row: row["time"]):
        if row.get("mode") == mode:
            programs[timings.program(row)].append(row)
    pairs = []
    problems: dict[Problem, int] = defaultdict(lambda: len(problems))
    numbers: dict[str | None, int] = defaultdict(lambda: len(numbers))
    shortest = {one_board: timings.shortest_ms(one_board) for one_board in (True, False)}
    for number, rows in enumerate(programs.values()):
        problem, is_twin = problems[problem_of(rows[0])], bool(rows[0].get("technique"))
        prepared = [(row, group(row), timed(row, timings)) for row in rows]
        for (base, old_group, before), (new, new_group, after) in combinations(prepared, 2):
            if old_group == new_group or base["samples_ms"] == new["samples_ms"]:
                continue  # one measurement, written under two names
            moved = shift(before, after)
            if math.exp(min(before.log_ms, after.log_ms)) < shortest[moved.one_board]:
                continue
            boards = numbers[before.board], numbers[after.board]
            environments = base["environment"], new["environment"]
            anchors = math.nan if moved.anchors is None else moved.anchors
            kind = (moved.one_board, moved.is_anchor, is_twin)
            pairs.append((number, problem, boards, environments, *kind, moved.time, anchors))
    columns = list(zip(*pairs, strict=True)) or [()] * 9
    types = (int, int, int, object, bool, bool, bool, float, float)
    found = [np.array(column, dtype=kind) for column, kind in zip(columns, types, strict=True)]
    found[2], found[3] = found[2].reshape(-1, 2), found[3].reshape(-1, 2)
    return Replicates(*found)


@dataclass(frozen=True)
class Noise:
    """Limits, in logarithms of time, of pairs on one board or on two: what the share `level` of `pairs` replicates of
    `programs` programs does not exceed. None: too few pairs, or all of one problem. `anchor` is for the time of the
    anchor itself, which between boards moves by more than what it is compared with; its level is `anchor_level`."""

    one_board: bool
    pairs: int
    programs: int
    level: float | None
    time: float | None
    ratio: float | None
    both: float | None
    anchors: float | None
    anchor: float | None
    anchor_level: float | None = None


class Levels(NamedTuple):
    """The level of the limits of all but the anchor, and that of the anchor's own."""

    others: float
    anchor: float


class Sorted:
    """Pairs on one board, or on two, with every statistic sorted once: the limits of any part of them are then
    quick."""

    def __init__(self, pairs: Replicates, one_board: bool) -> None:
        self.one_board = one_board
        self.pairs = pairs = pairs.where(pairs.one_board == one_board)
        self.weight = pairs.weight
        every: Array = np.ones(len(pairs), bool)
        anchored = ~np.isnan(pairs.anchors)
        ratio = pairs.time - pairs.anchors
        self._ascending = {
            "time": self._sorted(pairs.time, every),
            "ratio": self._sorted(ratio, anchored),
            "both": self._sorted(_smaller(pairs.time, ratio), anchored),
            "anchors": self._sorted(pairs.anchors, anchored),
            "anchor": self._sorted(pairs.time, every if one_board else pairs.is_anchor),
        }

    def _sorted(self, values: Array, counting: Array) -> tuple[Array, Array, Array]:
        """The places of the pairs that count, the smallest absolute value first, these values, and their programs."""
        places = np.flatnonzero(counting)
        sizes = np.abs(values[places])
        order = np.argsort(sizes)
        return places[order], sizes[order], self.pairs.program[places[order]]

    def limits(self, part: Array, levels: Sequence[float] = LEVELS) -> list[Noise]:
        """For each level the limits of the pairs where `part` is true; empty where they are too few."""
        found: dict[str, list[float] | list[None]] = {}
        for name, (order, sizes, programs) in self._ascending.items():
            kept = np.flatnonzero(part[order])
            found[name] = _quantiles(sizes, programs, kept, levels) or [None] * len(levels)
        if found["time"][0] is None or found["both"][0] is None:
            return []
        about, limits = self._about(part), zip(*(found[name] for name in STATISTICS), strict=True)
        return [Noise(*about, level, *each) for level, each in zip(levels, limits, strict=True)]

    def levels(self, part: Array) -> Levels | None:
        """Those of LEVELS that come nearest to both promises for the pairs where `part` is true; None where they are
        too few, or of one problem.

        Each part of the problems is judged by limits of the others, at every level, as it is and slowed. Taken is the
        level whose worse side, verdicts that are false or slowdowns that are missed, is the least of what is allowed.
        On one board all pairs choose one level, because the anchor's limit is that of all.
        """
        judged = self.held_out(part, self.pairs.problem[:, None], self.limits)
        if judged is None:
            return None
        is_anchor = self.pairs.is_anchor[judged.places]
        if self.one_board or is_anchor.all() or not is_anchor.any():
            return Levels(*[self._nearest(judged, np.ones_like(is_anchor))] * 2)
        return Levels(self._nearest(judged, ~is_anchor), self._nearest(judged, is_anchor))

    def _nearest(self, judged: Judged, which: Array) -> float:
        """The level that comes nearest to both promises for these of the pairs that were judged at each."""
        promise, weight = PROMISED[self.one_board], self.weight[judged.places][which]
        false = _share(np.isin(judged.plain[:, :, which], (1, -1)), weight) / promise.false
        missed = _share(judged.planted[:, :, which] != 1, weight) / (1 - promise.found)
        return LEVELS[int(np.argmin(np.maximum(false, missed)))]

    def noise(self, part: Array, levels: Levels | None = None) -> Noise:
        """The limits of the pairs where `part` is true, at these levels, or else at theirs."""
        levels = levels or self.levels(part)
        found = [] if levels is None else self.limits(part, levels)
        if levels is None or not found:
            return Noise(*self._about(part), *[None] * 6)
        others, anchor = found
        return replace(others, anchor=anchor.anchor, anchor_level=levels.anchor)

    def noises(self, part: Array) -> list[Noise]:
        """`noise`, as `held_out` takes it: empty where there are no limits."""
        found = self.noise(part)
        return [] if found.time is None else [found]

    def held_out(self, part: Array, sides: Array, limits: Callable[[Array], Sequence[Noise]]) -> Judged | None:
        """Judges the pairs where `part` is true by limits of others among them. `sides` (pairs, 1 or 2) are numbers of
        problems or boards, dealt into PARTS; a pair's others have no side in a part of its own. None where the others
        of some are too few for limits."""
        there = np.flatnonzero(np.bincount(sides[part].reshape(-1)))
        dealt = np.sort(np.searchsorted(there, sides[part]) % PARTS, axis=1)
        columns, every = self.pairs.where(part), np.flatnonzero(part)
        slower = math.log1p(PROMISED[self.one_board].planted)
        places, plain, planted = [], [], []
        for name in np.unique(dealt, axis=0):
            here = (dealt == name).all(axis=1)
            others = np.zeros_like(part)
            others[every[~np.logical_or.reduce([(dealt == one).any(axis=1) for one in name])]] = True
            found = limits(others)
            if not found:
                return None
            time, anchors = (np.stack([column[here], -column[here]]) for column in (columns.time, columns.anchors))
            places.append(every[here])
            plain.append([judge(time, anchors, columns.is_anchor[here], one) for one in found])
            planted.append([judge(time + slower, anchors, columns.is_anchor[here], one) for one in found])
        if not places:
            return None
        return Judged(np.concatenate(places), np.concatenate(plain, axis=-1), np.concatenate(planted, axis=-1))

    def _about(self, part: Array) -> tuple[bool, int, int]:
        return self.one_board, int(part.sum()), int(np.count_nonzero(np.bincount(self.pairs.program[part])))


@dataclass(frozen=True)
class Judged:
    """Verdicts on the pairs at `places`, as they are and slowed by what is promised to be found: (limits; forwards,
    backwards; pairs)."""

    places: Array
    plain: Array
    planted: Array


def noise(pairs: Replicates, one_board: bool) -> Noise:
    """The limits of one kind of pairs."""
    kind = Sorted(pairs, one_board)
    return kind.noise(np.ones(len(kind.pairs), bool))


def judge(time: Array, anchors: Array, is_anchor: Array, limit: Noise) -> Array:
    """1 slower, -1 faster, 0 the same, AMBIGUOUS, for arrays or single values; `anchors` is nan where there are none.
    Raises ValueError where there are no limits."""
    if limit.time is None or limit.both is None:
        raise ValueError(f"noise: got {limit.pairs} pairs of replicates, expected {EXPECTED}")
    time, anchors, is_anchor = np.broadcast_arrays(*map(np.asarray, (time, anchors, is_anchor)))
    ratio = time - anchors
    both, alone = _smaller(time, ratio), np.where(is_anchor, limit.anchor or limit.time, limit.time)
    decision = _direction(both, limit.both)
    alone_moved = (np.abs(time) > limit.time) | (np.abs(ratio) > limit.ratio)
    decision = np.where((decision == 0) & alone_moved, AMBIGUOUS, decision)
    decision = np.where(np.abs(anchors) > limit.anchors, _direction(ratio, limit.ratio), decision)
    return np.where(np.isnan(anchors), _direction(time, alone), decision)


@dataclass(frozen=True)
class Trial:
    """What the verdicts are worth: `false` of `pairs` replicate pairs were called slower or faster, `ambiguous` were
    left open, and of the same pairs, slowed by `planted`, `found` were called slower. Every pair is judged in both
    directions; the shares are by weight."""

    left_out: str
    one_board: bool
    what: str
    pairs: int
    false: float
    ambiguous: float
    planted: float
    found: float

    @property
    def promise(self) -> Promise:
        """What is promised of such pairs, all kinds together."""
        return PROMISED[self.one_board]


def trial(pairs: Replicates) -> list[Trial]:
    """Judges every replicate pair by limits, at a level, in which it had no part, twice: without its problem, without
    its boards. Where the others are too few for limits, nothing is judged."""
    kinds: dict[str, Callable[[Replicates], Array]] = {
        "twins": lambda pairs: pairs.is_twin,
        "library peers": lambda pairs: ~pairs.is_twin & ~pairs.is_anchor,
        "the anchor": lambda pairs: pairs.is_anchor,
        "all": lambda pairs: np.ones(len(pairs), bool),
    }
    found = []
    for left_out, one_board in (("problem", True), ("problem", False), ("boards", True), ("boards", False)):
        kind = Sorted(pairs, one_board)
        sides = kind.pairs.problem[:, None] if left_out == "problem" else kind.pairs.boards
        judged = kind.held_out(np.ones(len(kind.pairs), bool), sides, kind.noises)
        if judged is None:
            continue
        here, plain, planted = kind.pairs.where(judged.places), judged.plain[0], judged.planted[0]
        for what, mask in kinds.items():
            chosen = mask(here)
            if chosen.any():
                decision, weight = plain[:, chosen], kind.weight[judged.places][chosen]
                found.append(
                    Trial(
                        left_out,
                        one_board,
                        what,
                        int(chosen.sum()),
                        false=float(_share(np.isin(decision, (1, -1)), weight)),
                        ambiguous=float(_share(decision == AMBIGUOUS, weight)),
                        planted=PROMISED[one_board].planted,
                        found=float(_share(planted[:, chosen] == 1, weight)),
                    )
                )
    return found


def group(row: Row) -> tuple[Any, ...]:
    """The interleaved group of a row: its name is unique in a run, and a run's rows are of one environment."""
    return page(row), row.get("environment"), row.get("group"), row.get("mode")


def log_ms(row: Row) -> float:
    """Logarithm of the row's median milliseconds."""
    return math.log(median_ms(row))


def _share(verdicts: Array, weight: Array) -> Array:
    """Of verdicts (..., forwards and backwards, pairs) that are true, by the weight of their pairs."""
    return np.average(verdicts.mean(axis=-2), axis=-1, weights=weight)


def _smaller(time: Array, ratio: Array) -> Array:
    """The one nearer to zero, and zero where their signs differ."""
    return np.where(time * ratio > 0, np.sign(time) * np.minimum(np.abs(time), np.abs(ratio)), 0.0)


def _direction(value: Array, limit: Any) -> Array:
    return (value > limit).astype(int) - (value < -limit).astype(int)


def _quantiles(sizes: Array, program: Array, kept: Array, levels: Sequence[float]) -> list[float]:
    """Of ascending `sizes` those `kept`, at these levels; the pairs of one program weigh as much as those of another.
    Empty where there are fewer than FEWEST."""
    if len(kept) < FEWEST:
        return []
    program = program[kept]
    weight = np.cumsum((1 / np.maximum(np.bincount(program), 1))[program])
    places = [int(np.searchsorted(weight, level * weight[-1])) for level in levels]
    return [float(sizes[kept[min(place, len(kept) - 1)]]) for place in places]
