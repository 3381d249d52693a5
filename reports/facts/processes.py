"""Ratios with their intervals over processes and boards."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product

from harness.operators.attention.problem import Problem
from harness.rows import intervals, reading
from reports.data.dataset import Dataset, Point, Row

LEAST = intervals.FEWEST
"""Processes from which on an interval is told."""


@dataclass(frozen=True)
class Spread:
    """TFLOPS over TFLOPS, the mean over the processes that timed both in one group. `low` and `high` bound it where
    these are enough, else they are the value. `linked`: over the anchors of two groups, of the newest rows."""

    value: float
    low: float
    high: float
    processes: int
    linked: bool

    @property
    def has_interval(self) -> bool:
        return self.processes >= LEAST and not self.linked


def over(data: Dataset, ours: Point, theirs: Point) -> Spread | None:
    """One kernel over another; None where either does not count, or neither a group nor an anchor links them."""
    if not (ours.counts and theirs.counts and ours.row and theirs.row):
        return None
    if met := data.intervals.estimate([(ours.row, 1.0), (theirs.row, -1.0)]):
        value, found = math.exp(met.value), met.interval
        low, high = (value if bound is None else bound for bound in (found.low, found.high))
        return Spread(value, low, high, met.processes, linked=False)
    linked = _linked(data, ours, theirs)
    return None if linked is None else Spread(linked, linked, linked, 0, linked=True)


def _linked(data: Dataset, ours: Point, theirs: Point) -> float | None:
    """Over anchors, of the points' own rows or else of the newest: a library may be in a later group without our
    kernel."""
    again = product(*(sorted(replicates(data, point), key=_time, reverse=True) for point in (ours, theirs)))
    found = (data.linked(row, other) for row, other in ((ours.row, theirs.row), *again) if row and other)
    return next((value for value in found if value is not None), None)


def _time(row: Row) -> str:
    return str(row["time"])


def replicates(data: Dataset, point: Point) -> list[Row]:
    """Every timing of this kernel, problem and tile that counts, whatever the process."""
    if not point.row:
        return []
    return [row for row in data.replicas(point.row) if reading.counts(row, data.hashes)]


@dataclass(frozen=True)
class Speed:
    """TFLOPS of a kernel: the mean over processes and boards, the lowest and the highest median."""

    mean: float
    low: float
    high: float
    processes: int

    @property
    def is_settled(self) -> bool:
        return self.processes >= LEAST


def speed(data: Dataset, point: Point) -> Speed | None:
    """None where the point has no number."""
    if not point.row or not point.counts:
        return None
    met = data.intervals.estimate([(point.row, 1.0)])
    if met is None:
        return None
    mean = Problem.from_dict(point.row["problem"]).tflops(math.exp(-met.value))
    values = [reading.tflops(row) for row in data.intervals.timings(point.row)]
    return Speed(mean, min(values), max(values), met.processes)
