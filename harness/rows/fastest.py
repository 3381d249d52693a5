"""The rungs that a kernel is compared with by default: the fastest that are recorded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from harness import operators
from harness.catalog import techniques
from harness.operators.protocol import Problem
from harness.rows.frame import frame

if TYPE_CHECKING:
    from pandas import DataFrame

Rung = tuple[str, str]
"""(technique, backend)."""
COUNT = 3


def recorded(folder: Path, gpu: str, arch: str | None, problem: Problem) -> list[Rung]:
    """The COUNT fastest rungs in the rows that `folder` records of `gpu` (a slug such as h200), each in its fastest
    language, best first. If that GPU has none, the last rung of each ladder that is built for `arch`, in CUDA."""
    timing = frame("timing", root=folder, operator=problem.operator)
    if found := of_table(timing[timing.gpu_slug == gpu], problem)[:COUNT]:
        return found
    of = operators.of(problem)
    ladders = [ladder.name for ladder in of.ladders if arch in ladder.archs]
    last = {one.ladder: one.name for one in of.techniques if one.ladder in ladders}
    return [(last[ladder], "cuda") for ladder in reversed(ladders)][:COUNT]


def of_each_series(folder: Path, arch: str | None, problem: Problem) -> list[Rung]:
    """The fastest recorded rung in each series of rows on this problem, on any GPU of the architecture."""
    timing = frame("timing", root=folder, operator=problem.operator)
    timing = timing[(timing.problem == problem.slug) & (timing.arch == arch)]
    return [found[0] for _, of in timing.groupby("backend") if (found := of_table(of, problem))]


def of_table(timing: DataFrame, problem: Problem) -> list[Rung]:
    """Every rung in its fastest language, best first, on the timed problem of the same cell that is nearest."""
    rungs = [technique.name for technique in operators.of(problem).techniques]
    timed = timing[(timing.purpose == "timing") & (timing.status == "passed") & timing.technique.isin(rungs)]
    timed = timed[~timed.backend.isin(techniques.AS_CUBINS)]  # of which no cubin need be here
    problems = {slug: operators.parse(slug, problem.operator) for slug in timed.problem.unique()}
    alike = [slug for slug, one in problems.items() if one.cells[-1] == problem.cells[-1]]
    if not alike:
        return []
    nearest = min(alike, key=lambda slug: (problems[slug].distance(problem), slug))
    best = timed[timed.problem == nearest].sort_values("ms", kind="stable").drop_duplicates("technique")
    return list(zip(best.technique, best.backend, strict=True))
