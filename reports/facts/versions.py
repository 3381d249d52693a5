"""What another Triton makes of a kernel, beside the installed one's: from timings of one group."""

from __future__ import annotations

import math
from dataclasses import dataclass

from harness.catalog.problem import Problem, Tile
from harness.catalog.techniques import AS_CUBINS, RELEASES
from harness.catalog.tiles import compared_with
from reports.data.dataset import Dataset, Point
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
