"""The rungs that a kernel is compared with by default: the fastest that are recorded. Standard library only."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

from harness import operators
from harness.catalog import techniques
from harness.operators.protocol import Problem
from harness.rows import reading, results
from harness.rows.reading import Row

Rung = tuple[str, str]
"""(technique, backend)."""
COUNT = 3


def recorded(folder: Path, gpu: str, arch: str | None, problem: Problem) -> list[Rung]:
    """The COUNT fastest rungs in the rows that `folder` records of `gpu` (a slug such as h200), each in its fastest
    language, best first. If that GPU has none, the last rung of each ladder that is built for `arch`, in CUDA."""
    if found := of_rows(results.read_recorded(folder, gpu), problem)[:COUNT]:
        return found
    last = [
        [each for each in operators.of(problem).techniques if each.ladder == ladder.name][-1]
        for ladder in operators.of(problem).ladders
        if arch in ladder.archs
    ]
    return [(technique.name, "cuda") for technique in reversed(last)][:COUNT]


def of_rows(rows: Iterable[Row], problem: Problem) -> list[Rung]:
    """Every rung in its fastest language, best first, on the timed problem of the same cell that is nearest."""
    times: dict[Problem, dict[Rung, float]] = {}
    known = {technique.name for technique in operators.of(problem).techniques}
    for row in rows:
        timed = results.what(row) == "timing" and row["status"] == "passed" and row.get("technique") in known
        if timed and row["backend"] not in techniques.AS_CUBINS:  # of which no cubin need be here
            cell = times.setdefault(reading.problem_of(row), {})
            rung = (row["technique"], row["backend"])
            cell[rung] = min(reading.median_ms(row), cell.get(rung, math.inf))
    alike = [one for one in times if (one.operator, one.cells[-1]) == (problem.operator, problem.cells[-1])]
    if not alike:
        return []
    nearest = times[min(alike, key=lambda one: (one.distance(problem), one.slug))]
    found: dict[str, Rung] = {}
    for rung in sorted(nearest, key=nearest.__getitem__):
        found.setdefault(rung[0], rung)
    return list(found.values())
