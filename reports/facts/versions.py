"""What each Triton makes of a kernel: its machine code, and its time beside the installed one's in one group."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product

from harness.catalog import techniques
from harness.catalog.entries import Tile
from harness.catalog.techniques import AS_CUBINS, RELEASES
from harness.catalog.tiles import compared_with, pick
from harness.operators.attention.problem import Problem
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
    """A kernel compiled by one Triton, and what it is compared with wherever both were timed: the same kernel by the
    installed Triton, or its parent by the same Triton."""

    technique: str
    backend: str
    other: tuple[str, str]
    """(technique, backend)."""
    cells: tuple[Cell, ...]

    @property
    def ratio(self) -> float:
        return statistics.geometric_mean(cell.over.value for cell in self.cells)

    @property
    def sentence(self) -> str:
        values = [cell.over.value for cell in self.cells]
        problems = f"{len(values)} problems" if len(values) > 1 else f"one problem, {self.cells[0].problem.slug}"
        ends = f", {min(values):.3f} to {max(values):.3f}" if len(values) > 1 else ""
        name, backend = self.other
        other = label(backend) if name == self.technique else title(name)
        again = self.other == (self.technique, self.backend.removesuffix(f"@{RELEASES[0]}"))
        why = " The machine code is the same: what differs is the launch." if again else ""
        told = f"{title(self.technique)} in {label(self.backend)} over {other}: {self.ratio:.3f}"
        return f"{told} on {problems}{ends}.{why}"


COMPILED = "flagship"
"""The kernel that every Triton compiles for the page."""


def compiled(rows: Iterable[Row], hashes: reading.Hashes) -> list[Row]:
    """Rows with the machine code of COMPILED by each Triton, of this checkout's sources, in the order of the versions;
    behind them CUDA's, at its reference tile. Those of Tritons are of compilers alone, made to a cubin on a machine
    without a GPU; of CUDA's kernel, what a gate read on a GPU is as good."""
    found = {
        row["backend"]: row
        for row in sorted(rows, key=lambda row: row["time"])
        if row.get("technique") == COMPILED
        and ((row["kind"] == "code" and row["backend"] in AS_CUBINS) or _beside_them(row))
        and row["status"] == "passed"
        and reading.is_current(row, hashes)
    }
    return [found[backend] for backend in (*AS_CUBINS, "cuda") if backend in found]


def _beside_them(row: Row) -> bool:
    """Whether a row is CUDA's kernel for the problem that the page is about."""
    if (row["backend"], row.get("arch")) != ("cuda", "sm_90a"):
        return False
    of_page = (row["problem"]["head_dim"], row["problem"]["causal"]) == (128, False)
    return of_page and "main_loop" in (row.get("code") or {}) and reading.is_reference_tile(row)


def beside(data: Dataset, experiment: str) -> list[Beside]:
    """Every kernel of another Triton that met the installed one's in this experiment, or its parent, in the order of
    the versions. Where there are such, CUDA's and the installed Triton's kernels stand beside their parents too.

    Both have one tile, but where `tune` chose one for the other Triton too: then each has its own."""
    cells: dict[tuple[str, str, tuple[str, str]], list[Cell]] = {}
    versions = [
        backend for backend in AS_CUBINS if any(data.at(experiment, p, backend) for p in data.problems(experiment))
    ]
    others = ["cuda", *dict.fromkeys(map(compared_with, versions))] if versions else []
    for backend, problem in product((*versions, *others), data.problems(experiment)):
        timed = {
            (row.technique, Tile.parse(row.tile))
            for row in data.at(experiment, problem, backend)
            if techniques.find(row.technique)  # a recorded kernel may be gone
        }
        for name, tile in sorted(timed):
            series = compared_with(backend)
            parent = techniques.parent(techniques.get(name), series)
            own, of_series = (pick(data.chosen, name, each, problem) for each in (backend, series))
            for other in ((name, series), (parent.name if parent else name, backend)):
                each_its_own = other == (name, series) and own != of_series
                if other == (name, backend) or (each_its_own and tile != own):
                    continue
                ours = data.point(experiment, problem, name, backend, tile=tile)
                theirs = data.point(experiment, problem, *other, tile=of_series if each_its_own else tile)
                over = processes.over(data, ours, theirs)
                if over and not over.linked:
                    cells.setdefault((name, backend, other), []).append(Cell(problem, ours, theirs, over))
    return [Beside(*key, tuple(found)) for key, found in cells.items()]
