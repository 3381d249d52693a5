"""Ratios with their intervals over processes and boards."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from harness.rows import intervals, reading
from reports.data.dataset import Dataset, Point, Ratio, Row

LEAST = intervals.FEWEST
"""Processes from which on an interval is told."""


@dataclass(frozen=True)
class Spread:
    """TFLOPS over TFLOPS, of the newest rows that met. `low` and `high` bound it where enough processes timed both in
    one group, else they are the value. `linked`: over the anchors of two groups."""

    value: float
    low: float
    high: float
    processes: int
    linked: bool

    @property
    def has_interval(self) -> bool:
        return self.processes >= LEAST and not self.linked

    @property
    def unchanged(self) -> bool:
        """Whether the interval holds 1."""
        return self.has_interval and self.low <= 1 <= self.high


def over(data: Dataset, ours: Point, theirs: Point) -> Spread | None:
    """One kernel over another; None where either does not count, or neither a group nor an anchor links them."""
    ratio = _ratio(data, ours, theirs)
    if ratio is None or not ours.row or not theirs.row:
        return None
    found = data.intervals.of(ours.row, theirs.row)
    low, high = (ratio.value if bound is None else bound for bound in (found.low, found.high))
    return Spread(ratio.value, low, high, found.processes, ratio.linked)


def _ratio(data: Dataset, ours: Point, theirs: Point) -> Ratio | None:
    """Of the newest group that has both, else over anchors: a library may be in a later group without our kernel."""
    if not (ours.counts and theirs.counts):
        return None
    pairs = sorted(
        product(replicates(data, ours), replicates(data, theirs)), key=lambda pair: str(pair[0]["time"]), reverse=True
    )
    for row, other in pairs:
        if (direct := reading.ratio(row, other)) is not None:
            return Ratio(direct, linked=False)
    linked = (data.linked(row, other) for row, other in pairs)
    return next((Ratio(value, linked=True) for value in linked if value is not None), None)


def replicates(data: Dataset, point: Point) -> list[Row]:
    """Every timing of this kernel, problem and tile that counts, whatever the process."""
    if not point.row:
        return []
    return [row for row in data.replicas(point.row) if reading.counts(row, data.hashes)]


def speed(data: Dataset, point: Point) -> tuple[float, float, int] | None:
    """(lowest, highest, processes) of the medians in TFLOPS; None where the point has no number."""
    rows = replicates(data, point)
    values = [reading.tflops(row) for row in rows]
    return (min(values), max(values), len({row.get("environment") for row in rows})) if values else None
