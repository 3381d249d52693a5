"""Tiles: the reference, the best that both languages can express, the best of a language's own grid."""

from dataclasses import dataclass

from harness.catalog import techniques
from harness.catalog.entries import Technique, Tile
from harness.catalog.techniques import SERIES
from harness.operators.protocol import Problem
from harness.rows import reading
from reports.data.dataset import Dataset, Point, Row


@dataclass(frozen=True)
class Choice:
    """A tile that `tune` chose, and its speed: `point` where it was timed again after the choice."""

    tile: Tile
    point: Point
    tuning: Row

    @property
    def tflops(self) -> float:
        """Of the later timing where there is one, else of the run that chose."""
        return self.point.tflops or reading.tflops(self.tuning)


@dataclass(frozen=True)
class Tuned:
    """One twin on one problem. `common` is None where no tile of its grid is in the other language's."""

    problem: Problem
    backend: str
    reference: Point
    common: Choice | None
    own: Choice
    rows: list[Row]
    """Every tile that was tried, the fastest first, then those that were not timed."""


def tuned(data: Dataset, experiment: str, technique: Technique) -> list[Tuned]:
    """Per problem and twin that `tune` has rows of, for the checkout's kernel."""
    rows = [row for row in data.of("tune", technique.name) if row.current]
    found = []
    for problem in sorted({reading.problem_of(row) for row in rows}, key=data.operator.problem_order):
        both = _expressible(technique, problem)
        for backend in SERIES:
            here = [row for row in rows if (row.backend, row.problem) == (backend, problem.slug)]
            ranked = sorted(filter(_timed, here), key=lambda row: row.ms)
            if ranked:
                tiles = [Tile.parse(row.tile) for row in ranked]
                points = (data.point(experiment, problem, technique.name, backend, tile=tile) for tile in tiles)
                choose = [Choice(*one) for one in zip(tiles, points, ranked, strict=True)]
                common = next((choice for choice in choose if choice.tile in both), None)
                reference = data.point(experiment, problem, technique.name, backend)
                rest = [row for row in here if not _timed(row)]
                found.append(Tuned(problem, backend, reference, common, choose[0], [*ranked, *rest]))
    return found


def tried_earlier(data: Dataset, technique: Technique) -> bool:
    """Whether `tune` has tried tiles on an earlier version of a twin."""
    return any(not row.current for row in data.of("tune", technique.name))


def _expressible(technique: Technique, problem: Problem) -> set[Tile]:
    """Tiles that are in the grids of both languages, and the reference tile where both take it."""
    grids = [set(techniques.grid(technique, backend, problem)) for backend in ("cuda", "triton")]
    reference = techniques.reference_tile(technique, problem.tile_key)
    taken = all(not techniques.unsupported(technique, backend, problem, reference) for backend in ("cuda", "triton"))
    return (grids[0] & grids[1]) | ({reference} if taken else set())


def _timed(row: Row) -> bool:
    return row["status"] == "passed" and bool(row.get("samples_ms"))
