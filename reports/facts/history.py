"""How a headline cell moved over recorded runs: its speed over the anchor of its own group, run by run."""

from __future__ import annotations

import math
from dataclasses import dataclass

from harness.catalog.techniques import SERIES
from harness.rows import reading
from harness.rows.reading import tile_slug
from reports.data.dataset import Dataset, Point, Row
from reports.facts import answer, steps


@dataclass(frozen=True)
class Moment:
    """One run: the time, the value over the anchor, the hash of the kernel's source, and whether it is today's."""

    time: str
    value: float
    source: str
    current: bool


@dataclass(frozen=True)
class Line:
    """One technique in one series at the headline problem and one tile, oldest run first. `noise`: by how much, in
    logarithms, two boards may differ although nothing changed; None where that is not known."""

    technique: str
    backend: str
    tile: str
    moments: list[Moment]
    noise: float | None

    @property
    def change(self) -> float:
        """The newest run over the one before it."""
        return self.moments[-1].value / self.moments[-2].value

    @property
    def edited(self) -> bool:
        """Whether the newest run and the one before it measured two versions of the kernel."""
        return self.moments[-1].source != self.moments[-2].source

    @property
    def verdict(self) -> str:
        """SAME, FASTER or SLOWER, by more than boards differ; nothing where that is not known."""
        if self.noise is None:
            return ""
        if abs(math.log(self.change)) <= self.noise:
            return "SAME"
        return "FASTER" if self.change > 1 else "SLOWER"


def lines(data: Dataset, noise: float | None) -> list[Line]:
    """The kernels of the headline problem at their reference tile that two runs or more have timed. `noise`: as in
    Line."""
    problem = answer.headline(data)
    if problem is None:
        return []
    found = []
    for technique in steps.timed(data):
        for backend in SERIES:
            point = data.point(answer.LADDER, problem, technique.name, backend)
            moments = _moments(data, point)
            if point.kind == "measured" and len(moments) > 1 and point.row:
                found.append(Line(technique.name, backend, tile_slug(point.row), moments, noise))
    return found


def _moments(data: Dataset, point: Point) -> list[Moment]:
    runs: dict[str, Row] = {}
    for row in sorted(data.replicas(point.row) if point.row else [], key=lambda row: str(row["time"])):
        if row["status"] == "passed" and row.get("samples_ms"):
            runs[str(row.get("environment"))] = row
    found = []
    for row in runs.values():
        value = data.over_anchor(row)
        if value is not None:
            current = reading.is_current(row, data.hashes)
            found.append(Moment(str(row["time"]), value, str(row["source_sha256"]), current))
    return found
