"""Rows that are not a pass, as pages list them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from harness.catalog import experiments, sources
from harness.rows import reading
from reports.data.dataset import Dataset, Row, why


@dataclass
class Hole:
    """Rows that are not a pass for one reason. `cells`: backend, technique and where, row by row."""

    status: str
    check: str | None
    reason: str | None
    cells: list[tuple[str, str, str]]

    @property
    def kernels(self) -> list[tuple[str, str]]:
        return list(dict.fromkeys((backend, technique) for backend, technique, _ in self.cells))


def group_holes(rows: Iterable[Row]) -> list[Hole]:
    """Holes with one status and reason together, whatever the kernel."""
    found: dict[tuple[Any, ...], Hole] = {}
    for row in rows:
        how = row.mode or row.tool
        reason, where = row.reason, [row.problem, row.kind, how, row.tile]
        if row.status == "not_converged" and row.samples_ms:
            reason = "the median is not certain enough after the time that it was given"
            where.append(why(row).partition(": ")[2])
        what = (row.status, row.check, reason)
        cell = (row.backend, row.technique or "", " ".join(filter(None, where)))
        found.setdefault(what, Hole(*what, [])).cells.append(cell)
    return list(found.values())


def unmeasured(data: Dataset, name: str) -> list[str]:
    """The problems of an experiment on which no kernel of this checkout has a row; none for a run on a CPU, where the
    problems are others."""
    rows = [row for row in data.newest if row.experiment == name]
    name = name.removesuffix(reading.SHARED_PTXAS)
    if (
        not any(row["on"] == "gpu" for row in rows)
        or not (sources.ROOT / "experiments" / "attention" / f"{name}.py").is_file()
    ):
        return []
    asked = experiments.load(name).problems
    met = {row.problem for row in rows if row.technique and row.current}
    return [problem.slug for problem in asked if problem.slug not in met]
