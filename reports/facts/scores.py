"""The scorecard's entries as pages show them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from harness.catalog import techniques
from harness.catalog.problem import Problem
from harness.catalog.techniques import TECHNIQUES
from harness.rows import reading
from reports.data.dataset import Dataset, Row
from reports.facts import roofs

GRID = "flagship_over_fastest"
"""The entry that says of each cell whether ours reached the fastest library."""


def scored(data: Dataset, experiment: str | None = None) -> list[dict[str, Any]]:
    """The scorecard's entries, of one experiment or of all, each with the worst cell's value and the rungs that only an
    earlier version keeps out. Cells of GRID have a `bare_loop` too."""
    return [
        {
            **entry,
            "worst_value": min((cell.get("value", math.inf) for cell in entry["cells"]), default=None),
            "earlier": earlier(data, entry["experiment"], entry["ours"]),
            "cells": beside_bare_loop(data, entry) if entry["name"] == GRID else entry["cells"],
        }
        for entry in data.scores
        if experiment in (None, entry["experiment"])
    ]


def beside_bare_loop(data: Dataset, entry: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The cells of an entry, each with a `bare_loop` in TFLOPS: what the loop without loads and exponentials reaches,
    or products alone where that loop was not measured. It is at the kernel's own clock where that was read, else at the
    roof's; None without a roof. No limit: a kernel that rescales O less often can be faster."""
    lines = {line.roof.name: line for line in roofs.found([data]).lines if line.flop}
    cells = []
    for cell in entry["cells"]:
        problem = Problem.parse(cell["problem"])
        points = (
            data.point(entry["experiment"], problem, "flagship", entry["ours"], best=best) for best in (True, False)
        )
        row = next((point.row for point in points if point.row), {})
        names = (f"loop_d{problem.head_dim}_no_exponentials", "products_d128")
        line = next((lines[name] for name in names if name in lines), None)
        cells.append({**cell, "bare_loop": line and (at_clock_of(data, row, line.flop) or line.median("tflops"))})
    return cells


def at_clock_of(data: Dataset, row: Row, flop: float | None) -> float | None:
    """TFLOPS of so many FLOP a clock and multiprocessor at the clock of a timing; None where that was not read."""
    ghz = reading.clock_ghz(row)
    return flop * ghz * data.multiprocessors(row) / 1e3 if ghz and flop else None


def earlier_cells(data: Dataset, experiment: str) -> list[tuple[str, str]]:
    """(backend, technique) of what an experiment timed in earlier versions only, with the problems where that is so on
    some; of every version of a language."""
    found = []
    for (backend, name), problems in sorted(_timed(data, experiment).items()):
        left = sorted(slug for slug, is_current in problems.items() if not is_current)
        if left:
            found.append((backend, name if len(left) == len(problems) else f"{name} ({', '.join(left)})"))
    return found


def earlier(data: Dataset, experiment: str, backend: str) -> list[str]:
    """The rungs that an experiment timed in earlier versions only."""
    timed = _timed(data, experiment)
    by_rung = {rung.name: timed.get((backend, rung.name), {}) for rung in TECHNIQUES}
    return [name for name, problems in by_rung.items() if problems and not any(problems.values())]


def _timed(data: Dataset, experiment: str) -> dict[tuple[str, str], dict[str, bool]]:
    """(backend, technique) -> problem -> whether an experiment timed this version of the kernel there."""
    found: dict[tuple[str, str], dict[str, bool]] = {}
    for row in data.timings(experiment):
        if row.get("technique") and techniques.find(row["technique"]):
            problems = found.setdefault((row["backend"], row["technique"]), {})
            slug = reading.slug(row)
            problems[slug] = problems.get(slug, False) or reading.is_current(row, data.hashes)
    return found
