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

Each limit is the LEVEL quantile of the same statistic over replicates; every program weighs the same, or the peers
would be all there is. The quantile is the only thing chosen here, the limits are data.

`trial` holds out what it judges: the limits for a pair are estimated without any pair of its problem (pairs of one
problem share their anchors' samples) or, a second table, without any pair that touches one of its boards.
"""

from __future__ import annotations

import json
import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from harness.catalog.problem import ANCHOR, Problem
from harness.rows.reading import Row, median_ms, page

Array = Any
"""A numpy array."""

LEVEL = 0.994
"""Share of replicate pairs that a limit lets pass: where recorded rows keep what is promised, in each kind of pairs."""
FEWEST = math.ceil(1 / (1 - LEVEL))
"""Pairs below which there is no such quantile."""
AMBIGUOUS = 2
"""A verdict like 1 (slower), -1 (faster) and 0 (the same): of time and ratio only one moved by more than noise."""

PROGRAM = ("technique", "backend", "problem", "tile", "mode", "arch", "source_sha256", "compiler")
LIBRARIES = ("torch", "cuda_runtime", "cudnn", "triton")
OWN_LIBRARY = {"fa2": "flash-attn", "fa3": "flash-attn-3", "fa4": "flash-attn-4"}
"""A peer's own, beside those that all share."""
PLANTED = {True: 0.03, False: 0.05}
"""Slowdowns that `trial` plants: on one board, on two."""


class Timings:
    """Timing rows with their groups and boards. `rows` hold environments and whatever else; those of `tune` do not
    count: it stops as soon as tiles can be told apart, and times no library beside them."""

    def __init__(self, rows: Iterable[Row]) -> None:
        rows = list(rows)
        self.environments = {row["id"]: row.get("details") or {} for row in rows if row["kind"] == "environment"}
        self.rows = [
            row for row in rows if row["kind"] == "timing" and row["status"] == "passed" and row.get("samples_ms")
        ]
        self._programs = {id(row): self._program(row) for row in self.rows}
        self._peers: dict[Any, dict[str, float]] = defaultdict(dict)
        for row in self.rows:
            if not row.get("technique"):
                self._peers[group(row)][self.program(row)] = log_ms(row)

    def board(self, row: Row) -> str | None:
        """Which board of its kind timed the row; None where that was not recorded."""
        gpu = self._details(row).get("gpu") or {}
        return gpu.get("uuid_sha256")

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
    return Timed(log_ms(row), peers, timings.board(row), row["backend"] == ANCHOR)


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

    def where(self, mask: Array) -> Replicates:
        """The pairs for which `mask`, bool of their length, is true."""
        return Replicates(*(getattr(self, name)[mask] for name in self.__dataclass_fields__))


def replicates(timings: Timings, mode: str = "burst") -> Replicates:
    """Every pair of passed rows of one program in two groups, timed in this mode: at the power cap times swing by more
    than on a cool card, and the two tell nothing of each other."""
    programs: dict[str, list[Row]] = defaultdict(list)
    for row in sorted(timings.rows, key=lambda row: row["time"]):
        if row.get("mode") == mode:
            programs[timings.program(row)].append(row)
    pairs = []
    problems: dict[Problem, int] = defaultdict(lambda: len(problems))
    numbers: dict[str | None, int] = defaultdict(lambda: len(numbers))
    for number, rows in enumerate(programs.values()):
        problem, is_twin = problems[Problem.from_dict(rows[0]["problem"])], bool(rows[0].get("technique"))
        prepared = [(row, group(row), timed(row, timings)) for row in rows]
        for (base, old_group, before), (new, new_group, after) in combinations(prepared, 2):
            if old_group == new_group or base["samples_ms"] == new["samples_ms"]:
                continue  # one measurement, written under two names
            moved = shift(before, after)
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
    """Limits, in logarithms of time, of pairs on one board or on two: what the LEVEL quantile of `pairs` replicates of
    `programs` programs does not exceed. None: fewer than FEWEST pairs. `anchor` is for the time of the anchor itself,
    which between boards moves by more than what it is compared with."""

    one_board: bool
    pairs: int
    programs: int
    time: float | None
    ratio: float | None
    both: float | None
    anchors: float | None
    anchor: float | None


class Sorted:
    """Pairs on one board, or on two, with every statistic sorted once: the limits of any part of them are then
    quick."""

    def __init__(self, pairs: Replicates, one_board: bool) -> None:
        self.one_board = one_board
        self.pairs = pairs = pairs.where(pairs.one_board == one_board)
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

    def noise(self, part: Array) -> Noise:
        """The limits of the pairs where `part` is true."""
        program = self.pairs.program
        limits = {}
        for name, (order, sizes, programs) in self._ascending.items():
            kept = np.flatnonzero(part[order])
            place = _place(programs[kept])
            limits[name] = None if place is None else float(sizes[kept[place]])
        return Noise(self.one_board, int(part.sum()), int(np.count_nonzero(np.bincount(program[part]))), **limits)


def noise(pairs: Replicates, one_board: bool) -> Noise:
    """The limits of one kind of pairs."""
    kind = Sorted(pairs, one_board)
    return kind.noise(np.ones(len(kind.pairs), bool))


def limits(pairs: Replicates) -> dict[bool, Noise]:
    """One board -> its noise. Where one board has too few replicates those of two boards stand in, which are wider."""
    found = {one_board: noise(pairs, one_board) for one_board in (True, False)}
    if found[True].both is None:
        found[True] = found[False]
    return found


def judge(time: Array, anchors: Array, is_anchor: Array, limit: Noise) -> Array:
    """1 slower, -1 faster, 0 the same, AMBIGUOUS, for arrays or single values; `anchors` is nan where there are none.
    Raises ValueError where there are no limits."""
    if limit.time is None or limit.both is None:
        raise ValueError(f"noise: got {limit.pairs} pairs of replicates, expected at least {FEWEST} with anchors")
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
    directions."""

    left_out: str
    one_board: bool
    what: str
    pairs: int
    false: float
    ambiguous: float
    planted: float
    found: float


def trial(pairs: Replicates) -> list[Trial]:
    """Judges every replicate pair by limits that it had no part in, twice: without its problem, without its boards.
    Where the others are too few for limits, nothing is judged."""
    kinds: dict[str, Callable[[Replicates], Array]] = {
        "twins": lambda pairs: pairs.is_twin,
        "library peers": lambda pairs: ~pairs.is_twin & ~pairs.is_anchor,
        "the anchor": lambda pairs: pairs.is_anchor,
        "all": lambda pairs: np.ones(len(pairs), bool),
    }
    found = []
    for left_out, one_board in (("problem", True), ("problem", False), ("boards", True), ("boards", False)):
        kind = Sorted(pairs, one_board)
        here, verdicts = kind.pairs, _held_out(kind, left_out)
        if verdicts is None:
            continue
        plain, planted = verdicts
        for what, mask in kinds.items():
            chosen = np.tile(mask(here), 2)
            if chosen.any():
                decision = plain[chosen]
                found.append(
                    Trial(
                        left_out,
                        one_board,
                        what,
                        int(chosen.sum()) // 2,
                        false=float(np.isin(decision, (1, -1)).mean()),
                        ambiguous=float((decision == AMBIGUOUS).mean()),
                        planted=PLANTED[one_board],
                        found=float((planted[chosen] == 1).mean()),
                    )
                )
    return found


def _held_out(kind: Sorted, left_out: str) -> tuple[Array, Array] | None:
    """Verdicts over all pairs forwards, then backwards: as they are, and slowed by PLANTED. None where the others of a
    pair are too few for limits."""
    here = kind.pairs
    left = here.problem[:, None] if left_out == "problem" else np.sort(here.boards, axis=1)
    sides = np.ascontiguousarray(left.T)
    plain: Array = np.zeros((2, len(here)), int)
    planted: Array = np.zeros((2, len(here)), int)
    names, which = np.unique(left, axis=0, return_inverse=True)
    for place, name in enumerate(names):
        judged = np.flatnonzero(which.reshape(-1) == place)
        limit = kind.noise(~np.logical_or.reduce([side == one for side in sides for one in name]))
        if limit.time is None or limit.both is None:
            return None
        is_anchor = here.is_anchor[judged]
        for way, sign in enumerate((1, -1)):
            time, anchors = sign * here.time[judged], sign * here.anchors[judged]
            plain[way, judged] = judge(time, anchors, is_anchor, limit)
            planted[way, judged] = judge(time + math.log1p(PLANTED[kind.one_board]), anchors, is_anchor, limit)
    return plain.reshape(-1), planted.reshape(-1)


def group(row: Row) -> tuple[Any, ...]:
    """The interleaved group of a row: its name is unique in a run, and a run's rows are of one environment."""
    return page(row), row.get("environment"), row.get("group"), row.get("mode")


def log_ms(row: Row) -> float:
    """Logarithm of the row's median milliseconds."""
    return math.log(median_ms(row))


def _smaller(time: Array, ratio: Array) -> Array:
    """The one nearer to zero, and zero where their signs differ."""
    return np.where(time * ratio > 0, np.sign(time) * np.minimum(np.abs(time), np.abs(ratio)), 0.0)


def _direction(value: Array, limit: Any) -> Array:
    return (value > limit).astype(int) - (value < -limit).astype(int)


def _place(program: Array) -> int | None:
    """Where in an ascending array, of values of these programs, its LEVEL quantile stands; the pairs of one program
    weigh as much as those of another."""
    if len(program) < FEWEST:
        return None
    weight = np.cumsum((1 / np.maximum(np.bincount(program), 1))[program])
    return min(int(np.searchsorted(weight, LEVEL * weight[-1])), len(program) - 1)
