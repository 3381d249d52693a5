"""Do busy neighbours move a ratio? From processes that found the other GPUs idle and at work."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from harness.catalog.problem import ANCHOR, Problem
from harness.rows import reading
from reports.data.dataset import Row
from reports.data.names import label
from reports.data.titles import title


@dataclass(frozen=True)
class Moved:
    """TFLOPS of one kernel over the anchor's, a ratio for each process: with `idle` neighbours, and with `count` `busy`
    ones."""

    problem: Problem
    name: str
    idle: tuple[float, ...]
    busy: tuple[float, ...]
    count: int

    @property
    def change(self) -> float:
        return statistics.median(self.busy) / statistics.median(self.idle) - 1

    @property
    def moves(self) -> bool:
        """Whether the two kinds of process do not overlap."""
        return max(self.busy) < min(self.idle) or max(self.idle) < min(self.busy)

    @property
    def sentence(self) -> str:
        gpus = "another GPU" if self.count == 1 else f"{self.count} other GPUs"
        idle, busy = statistics.median(self.idle), statistics.median(self.busy)
        verdict = "do not overlap: busy neighbours move" if self.moves else "overlap: busy neighbours do not move"
        return (
            f"{self.name} over {label(ANCHOR)} on {self.problem.slug}: {idle:.3f} alone, {busy:.3f} with {gpus} at "
            f"work ({self.change:+.2%}). Alone, {len(self.idle)} processes gave {_range(self.idle)}; beside busy "
            f"neighbours, {len(self.busy)} gave {_range(self.busy)}. The ranges {verdict} the ratio."
        )


def moved(rows: Iterable[Row]) -> list[Moved]:
    """Of every kernel and problem that was timed in at least two processes of each kind, as timing rows tell."""
    ratios: dict[tuple[Problem, str], dict[int, list[float]]] = {}
    passed = [
        row
        for row in rows
        if row["kind"] == "timing" and row["status"] == "passed" and "neighbours" in (row.get("details") or {})
    ]
    anchors = {(row["group"], row["environment"]): row for row in passed if row["backend"] == ANCHOR}
    for row in passed:
        anchor = anchors.get((row["group"], row["environment"]))
        if anchor is None or anchor is row:
            continue
        name = title(row["technique"]) if row.get("technique") else label(row["backend"])
        cell = ratios.setdefault((Problem.from_dict(row["problem"]), name), {})
        cell.setdefault(row["details"]["neighbours"], []).append(reading.tflops(row) / reading.tflops(anchor))
    found = []
    for (problem, name), by_count in ratios.items():
        count, idle = max(by_count), by_count.get(0, [])
        if count and len(idle) > 1 and len(by_count[count]) > 1:
            found.append(Moved(problem, name, tuple(idle), tuple(by_count[count]), count))
    return found


def _range(values: tuple[float, ...]) -> str:
    return f"{min(values):.3f} to {max(values):.3f}"
