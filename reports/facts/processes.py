"""Ratios with their intervals over processes and boards."""

from __future__ import annotations

import math
from dataclasses import dataclass

from harness.operators.attention.problem import Problem
from harness.rows import intervals, reading
from reports.data.dataset import Dataset, Point, Ratio

LEAST = intervals.FEWEST
"""Processes from which on an interval is told."""


Spread = Ratio


def over(data: Dataset, ours: Point, theirs: Point) -> Ratio | None:
    """One kernel over another; None where either does not count, or neither a group nor an anchor links them."""
    return data.ratio(ours, theirs, replicas=True)


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
