"""Ratios with their intervals over processes and boards."""

from __future__ import annotations

import math
from dataclasses import dataclass

from harness.rows import stats
from reports.data.dataset import Dataset, Point, Ratio

LEAST = stats.FEWEST
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
    met = data.programs.estimate({point.row.program: 1.0})
    if met is None:
        return None
    values = data.programs.speeds(point.row.program)
    return Speed(math.exp(met.value), min(values), max(values), met.processes)
