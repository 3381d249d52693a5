"""What each Triton makes of a kernel: its time beside the installed one's."""

import statistics
from dataclasses import dataclass

from harness.catalog import techniques
from harness.catalog.entries import Tile
from harness.catalog.techniques import AS_CUBINS
from harness.catalog.tiles import compared_with, pick
from harness.operators.protocol import Problem
from reports.data.dataset import Dataset, Ratio


@dataclass(frozen=True)
class Beside:
    """A kernel compiled by one Triton, and on each problem its speed over the same kernel's by the installed one."""

    technique: str
    backend: str
    cells: dict[Problem, Ratio]

    @property
    def ratio(self) -> float:
        return statistics.geometric_mean(over.value for over in self.cells.values())


def beside(data: Dataset, experiment: str) -> list[Beside]:
    """Every kernel of another Triton that met the installed one's in this experiment, in the order of the versions.
    Both have one tile, unless `tune` chose one for the other Triton too: then each has its own."""
    cells: dict[tuple[str, str], dict[Problem, Ratio]] = {}
    for backend in AS_CUBINS:
        series = compared_with(backend)
        for problem in data.problems(experiment):
            timed = {
                (row.technique, Tile.parse(row.tile))
                for row in data.at(experiment, problem, backend)
                if techniques.find(f"{data.operator.name}/{row.technique}")  # a recorded kernel may be gone
            }
            for name, tile in sorted(timed):
                own, of_series = (pick(data.chosen, name, each, problem) for each in (backend, series))
                if own != of_series and tile != own:
                    continue
                ours = data.point(experiment, problem, name, backend, tile=tile)
                theirs = data.point(experiment, problem, name, series, tile=of_series if own != of_series else tile)
                over = data.ratio(ours, theirs)
                if over and not over.linked:
                    cells.setdefault((name, backend), {})[problem] = over
    return [Beside(*kernel, found) for kernel, found in cells.items()]
