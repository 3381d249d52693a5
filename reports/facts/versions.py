"""What each Triton makes of a kernel: its machine code, and its time beside the installed one's in one group."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from harness.catalog.problem import Problem, Tile
from harness.catalog.techniques import AS_CUBINS, RELEASES
from harness.catalog.tiles import compared_with
from harness.rows import reading
from reports.data.dataset import Dataset, Point, Row
from reports.data.names import label
from reports.data.titles import title
from reports.facts import processes
from reports.facts.processes import Spread


@dataclass(frozen=True)
class Cell:
    """One problem: TFLOPS of the one over those of the other."""

    problem: Problem
    ours: Point
    theirs: Point
    over: Spread


@dataclass(frozen=True)
class Beside:
    """A kernel by another Triton, `backend`, and by the installed one, `other`, wherever both were timed."""

    technique: str
    backend: str
    other: str
    cells: tuple[Cell, ...]

    @property
    def ratio(self) -> float:
        """The geometric mean."""
        return math.exp(math.fsum(math.log(cell.over.value) for cell in self.cells) / len(self.cells))

    @property
    def sentence(self) -> str:
        values = [cell.over.value for cell in self.cells]
        problems = f"{len(values)} problems" if len(values) > 1 else f"one problem, {self.cells[0].problem.slug}"
        ends = f", {min(values):.3f} to {max(values):.3f}" if len(values) > 1 else ""
        told = f"{title(self.technique)} in {label(self.backend)} over {label(self.other)}: {self.ratio:.3f}"
        again = self.backend == f"{self.other}@{RELEASES[0]}"
        why = " The machine code is the same: what differs is the launch." if again else ""
        return f"{told} on {problems}{ends}.{why}"


COMPILED = "flagship"
"""The kernel whose machine code is shown of each Triton."""


def compiled(rows: Iterable[Row], hashes: reading.Hashes) -> list[Row]:
    """Rows with the machine code of COMPILED by each Triton, of this checkout's sources, in the order of the versions.
    They are of compilers alone: made to a cubin, on a machine without a GPU."""
    found = {
        row["backend"]: row
        for row in sorted(rows, key=lambda row: row["time"])
        if row.get("technique") == COMPILED
        and row["backend"] in AS_CUBINS
        and row["status"] == "passed"
        and reading.is_current(row, hashes)
    }
    return [found[backend] for backend in AS_CUBINS if backend in found]


def beside(data: Dataset, experiment: str) -> list[Beside]:
    """Every kernel of another Triton that met the installed one's in this experiment, in the order of the versions."""
    found = []
    problems = data.problems(experiment)
    for backend in AS_CUBINS:
        other = compared_with(backend)
        by_name: dict[str, list[Cell]] = {}
        for problem in problems:
            timed = {(row["technique"], Tile.from_dict(row["tile"])) for row in data.at(experiment, problem, backend)}
            for name, tile in sorted(timed):
                ours, theirs = (data.point(experiment, problem, name, one, tile=tile) for one in (backend, other))
                over = processes.over(data, ours, theirs)
                if over and not over.linked:
                    by_name.setdefault(name, []).append(Cell(problem, ours, theirs, over))
        found += [Beside(name, backend, other, tuple(cells)) for name, cells in sorted(by_name.items())]
    return found
