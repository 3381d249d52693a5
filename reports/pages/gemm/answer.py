"""The answer of matrix products: what is compared, and what each step of the ladders buys."""

from __future__ import annotations

from harness.catalog.entries import Technique
from harness.catalog.techniques import LANGUAGES
from harness.operators.gemm.libraries import PEERS
from harness.operators.protocol import Problem
from reports.data.dataset import Dataset, Point, fastest
from reports.facts.answer import SERIES_OF, Race, over_problems

LADDER, GRID, ALONE = "ladder", "grid", "libraries"


def _experiments(data: Dataset, language: str) -> list[str]:
    return [name for name in (LADDER, GRID, ALONE) if name in data.experiments]


def _peak(data: Dataset, panel: str) -> float | None:
    """By wgmma all that the tensor cores can; how much of that mma.sync reaches was not measured with products."""
    return 1.0 if panel == "wgmma" else None


RACE = Race(
    languages={"wgmma": ("cuda", "triton", "gluon"), "mma_sync": ("cuda", "triton")},
    libraries={"wgmma": PEERS, "mma_sync": ()},
    experiments=_experiments,
    headline=LADDER,
    peak=_peak,
    labels={"cublaslt": "cuBLASLt, tuned", "inductor": "Inductor"},
)


def steps(data: Dataset, problem: Problem) -> list[tuple[Technique, Problem, dict[str, Point]]]:
    """Every rung that was timed, with its fastest point in each language: at `problem`, or at another one of the ladder
    where it was not timed there."""
    found = []
    order = sorted(data.problems(LADDER), key=lambda other: other != problem)
    for technique in data.operator.techniques:
        for where in order:
            points = {language: _fastest(data, where, technique, language) for language in LANGUAGES}
            if any(point.counts for point in points.values()):
                found.append((technique, where, points))
                break
    return found


def _fastest(data: Dataset, problem: Problem, technique: Technique, language: str) -> Point:
    return fastest(
        data.point(LADDER, problem, technique.name, backend, best=tuned)
        for backend in SERIES_OF[language]
        for tuned in (False, True)
    )


def grid(data: Dataset) -> list[tuple[Problem, dict[str, Point]]]:
    """Every shape of the grid, with the best of each language and the fastest library."""
    timed = {row.technique for row in data.timings(GRID)}
    names = [technique.name for technique in data.operator.techniques if technique.name in timed]
    return over_problems(data, GRID, dict.fromkeys(LANGUAGES, names))
