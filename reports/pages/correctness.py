"""The page about correctness: gates of numerics by technique and kind of problem, random problems, sanitizers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, product
from typing import Any

from markupsafe import Markup

from harness.catalog import experiments, planted, sources, techniques
from harness.catalog.entries import Technique
from harness.catalog.techniques import SERIES, TECHNIQUES
from harness.operators.attention.problem import Problem
from harness.rows import reading, results
from reports.data.dataset import Dataset, Row, grouped
from reports.data.names import LABELS
from reports.data.titles import title
from reports.draw import errors
from reports.draw.errors import Block, Cell
from reports.facts.holes import group_holes
from reports.facts.sanitizers import Sanitized, planted_in, sanitized, sees_copies
from reports.pages.common import Figure

PATH = "evidence/correctness.html"
EXPERIMENTS = ("correctness", "any_length")
RANDOM = "random_problems"
"""Has one kernel and too many problems for a matrix."""
QUEUES = {"cuda": "ld_st.cuh", "gluon": "gluon_warpgroups.py"}
"""Language -> the file that writes and reads the slots by which a persistent block's producer announces its tiles."""
QUEUE_BUG = "slot_freed_while_read"
"""The planted bug that is a race there."""
Sanitizers = list[tuple[Technique, dict[tuple[str, str], Sanitized]]]
"""Every technique, (backend, tool) -> what it says."""


def page(datasets: Sequence[Dataset]) -> dict[str, Any]:
    found = matrices(datasets)
    table = sanitizer_table(datasets)
    ran = {name for _, tools in table for name in tools}
    return {
        "matrices": found,
        "pictures": pictures(found),
        "random": random_problems(datasets),
        "random_total": len(experiments.load(RANDOM).problems),
        "elsewhere": failed_elsewhere(datasets),
        "sanitized": table,
        "ran": [name for name in product(SERIES, results.SANITIZERS) if name in ran],
        "has_series": sources.has_series,
        "queues": queues(table),
        "queue_bug": planted.find(QUEUE_BUG),
        "planted": planted_bugs(datasets),
        "group_holes": group_holes,
    }


@dataclass(frozen=True)
class Judged:
    """The verdicts of gates: how many passed, how many problems the kernel declined, and the largest error of an
    element over the yardstick's largest."""

    passed: int
    declined: int
    failed: list[Row]
    worst: float

    @property
    def error(self) -> float | None:
        """Infinite where a gate failed, None without a verdict."""
        return math.inf if self.failed else self.worst if self.passed else None


UNASKED = Judged(0, 0, [], 0.0)


def judged(rows: Iterable[Row]) -> Judged:
    rows = list(rows)
    verdicts = [row for row in rows if row["status"] != "unsupported"]
    failed = [row for row in verdicts if row["status"] != "passed"]
    worst = max((error for row in verdicts for error in _errors(row)), default=0.0)
    return Judged(len(verdicts) - len(failed), len(rows) - len(verdicts), failed, worst)


def _errors(row: Row) -> Iterator[float]:
    """Of each distribution, over the yardstick; infinite where the kernel's is not finite."""
    for numbers in (row.get("numerics") or {}).values():
        if "max_abs" in numbers and (numbers["max_abs"] is None or numbers.get("yardstick")):
            yield math.inf if numbers["max_abs"] is None else numbers["max_abs"] / numbers["yardstick"]


@dataclass(frozen=True)
class Line:
    """One technique of a matrix. `earlier`: all its rows are about an earlier version of the kernel."""

    technique: Technique
    whole: Judged
    cells: dict[Cell, Judged]
    earlier: bool


@dataclass(frozen=True)
class Matrix:
    """The gates of one backend in one dataset and experiment.

    `outdated`: verdicts with other inputs or limits than this checkout's. `gated`: in how many of the `asked` cells
    (technique by problem) this checkout's kernels have a verdict; a CPU has another grid, so `asked` is None.
    """

    experiment: str
    backend: str
    where: str
    lines: list[Line]
    distributions: list[str]
    lengths: list[str]
    outdated: int
    gated: int
    asked: int | None

    @property
    def cells(self) -> list[Cell]:
        return sorted({cell for line in self.lines for cell in line.cells}, key=lambda cell: (cell[0] != "fp16", cell))

    @property
    def failed(self) -> list[Row]:
        return [row for line in self.lines for row in line.whole.failed]

    @property
    def verdicts(self) -> int:
        return sum(line.whole.passed for line in self.lines) + len(self.failed)


def matrices(datasets: Sequence[Dataset]) -> list[Matrix]:
    """One for each dataset, experiment and backend that has gates."""
    found = []
    for data, experiment in product(datasets, EXPERIMENTS):
        gates = [row for row in data.newest if (row["kind"], row.get("experiment")) == ("gate", experiment)]
        by_backend = grouped(gates, lambda row: row["backend"])
        found += [_matrix(data, experiment, name, by_backend[name]) for name in SERIES if name in by_backend]
    return found


def _matrix(data: Dataset, experiment: str, backend: str, gates: Sequence[Row]) -> Matrix:
    rows = current_or_earlier(gates, data)
    by_name = grouped(rows, lambda row: row["technique"])
    lines = [
        Line(
            technique,
            judged(several),
            {cell: judged(some) for cell, some in grouped(several, _cell).items()},
            not reading.is_current(several[0], data.hashes),
        )
        for technique in TECHNIQUES
        if (several := by_name.get(technique.name))
    ]
    grid = experiments.load(experiment)
    asked = {problem.slug for problem in grid.problems}
    current = {(row["technique"], reading.slug(row)) for row in rows if reading.is_current(row, data.hashes)}
    written = [name for name in grid.techniques if sources.has_series(backend, techniques.get(name).path)]
    problems = {Problem.from_dict(row["problem"]) for row in rows}
    return Matrix(
        experiment,
        backend,
        data.provenance(rows),
        lines,
        sorted({name for row in rows for name in row.get("numerics") or ()}),
        sorted({f"{one.seq_q}×{one.seq_kv}, heads {one.heads}/{one.heads_kv}" for one in problems}),
        sum(reading.of_earlier_gate(row) for row in rows if row["status"] != "unsupported"),
        sum(slug in asked for _, slug in current),
        len(asked) * len(written) if all(row["on"] == "gpu" for row in rows) else None,
    )


def current_or_earlier(rows: Iterable[Row], data: Dataset) -> list[Row]:
    """The rows of this checkout's kernels, and all rows of a kernel that has none."""
    rows = list(rows)
    current = [row for row in rows if reading.is_current(row, data.hashes)]
    names = {row["technique"] for row in current}
    return current + [row for row in rows if row["technique"] not in names]


def _cell(row: Row) -> Cell:
    problem = Problem.from_dict(row["problem"])
    return problem.dtype, problem.head_dim, problem.causal, problem.layout


def pictures(found: Sequence[Matrix]) -> list[tuple[str, str, Figure]]:
    """(finding, experiment, the errors of every twin), one for each dataset and experiment that has verdicts."""
    made = []
    for (_, experiment), several in groupby(found, key=lambda one: (one.where.partition(",")[0], one.experiment)):
        group = list(several)
        blocks = blocks_of(group)
        if any(error is not None for block in blocks for line in block.errors for error in line):
            finding = finding_of(blocks)
            drawn = [errors.heatmap(blocks, width, finding) for width in (errors.WIDE, errors.NARROW)]
            made.append((finding, experiment, Figure(Markup("".join(drawn)), group[0].where, finding, "")))
    return made


def blocks_of(found: Sequence[Matrix]) -> list[Block]:
    """The matrices of one experiment, each over every technique and cell that one of them has."""
    names = {line.technique.name for matrix in found for line in matrix.lines}
    rows = [technique.name for technique in TECHNIQUES if technique.name in names]
    cells = sorted({cell for matrix in found for cell in matrix.cells}, key=lambda cell: (cell[0] != "fp16", cell))
    made = []
    for matrix in found:
        lines = {line.technique.name: line.cells for line in matrix.lines}
        values = [[lines.get(name, {}).get(cell, UNASKED).error for cell in cells] for name in rows]
        made.append(Block(matrix.backend, cells, [title(name) for name in rows], values))
    return made


def finding_of(blocks: Sequence[Block]) -> str:
    """The kernel that errs most, or how many fail."""
    kernels = [
        (max((error for error in line if error is not None), default=0.0), name, block.backend)
        for block in blocks
        for name, line in zip(block.titles, block.errors, strict=True)
    ]
    if failed := sum(math.isinf(error) for error, *_ in kernels):
        return f"{failed} kernel{'s' if failed > 1 else ''} failed a check"
    error, name, backend = max(kernels)
    return f"No kernel errs by more than {error:.2f} times a careful 16-bit computation: “{name}” in {LABELS[backend]}"


def failed_elsewhere(datasets: Sequence[Dataset]) -> list[Row]:
    """Gates that a kernel of this checkout failed in an experiment that has no matrix."""
    return [
        row
        for data in datasets
        for row in data.newest
        if row["kind"] == "gate"
        and row["status"] not in ("passed", "unsupported")
        and row.get("technique")
        and row.get("experiment") not in EXPERIMENTS
        and reading.is_current(row, data.hashes)
    ]


def random_problems(datasets: Sequence[Dataset]) -> list[dict[str, Any]]:
    """For each dataset and kernel of the experiment that has verdicts: which problems it passed, and which it failed at
    whatever tile."""
    grid = experiments.load(RANDOM)
    asked = {problem.slug for problem in grid.problems}
    found = []
    for data, technique, backend in product(datasets, grid.techniques, grid.backends):
        gates = [
            row
            for row in data.of("gate", technique, backend)
            if row.get("experiment") == RANDOM and row["status"] != "unsupported" and reading.slug(row) in asked
        ]
        if rows := current_or_earlier(gates, data):
            found.append(
                {
                    "where": data.provenance(rows),
                    "technique": technique,
                    "backend": backend,
                    "problems": {reading.slug(row) for row in rows},
                    "failed": {reading.slug(row) for row in rows if row["status"] != "passed"},
                    "earlier": not reading.is_current(rows[0], data.hashes),
                    "outdated": sum(map(reading.of_earlier_gate, rows)),
                    "verdicts": len(rows),
                }
            )
    return found


def sanitizer_table(datasets: Sequence[Dataset]) -> Sanitizers:
    """Every technique, with what each tool says of its twins; empty if no tool ran."""
    found = [(technique, sanitized(datasets, technique)) for technique in TECHNIQUES]
    return found if any(tools for _, tools in found) else []


def queues(table: Sanitizers) -> dict[str, int]:
    """Language -> in how many persistent kernels racecheck reports the queue of tiles."""
    return Counter(
        backend
        for technique, tools in table
        for backend, file in QUEUES.items()
        if (said := tools.get((backend, "racecheck"))) and sources.is_persistent(technique.path)
        if any(file in line for line in said.reasons)
    )


def planted_bugs(datasets: Sequence[Dataset]) -> list[dict[str, Any]]:
    """A tool on a kernel with a planted bug: was it found, and what does a run on a CPU report? `unseen_copy`: the tool
    was silent where TMA overwrites what is still read."""
    diagnoses = {bug.name: bug.diagnosis for bug in planted.bugs()}
    rows = [
        (row, bug, not reading.is_current(row, data.hashes))
        for data in datasets
        for row in data.newest
        if row["kind"] == "sanitizer" and (bug := planted_in(row))
    ]
    found = [
        {
            "row": row,
            "bug": bug,
            "on_cpu": (on_cpu := diagnoses.get(bug)),
            "earlier": earlier,
            "unseen_copy": row["status"] == "wrong" and on_cpu == "race" and not sees_copies(row),
        }
        for row, bug, earlier in rows
    ]
    return sorted(found, key=lambda one: (results.SANITIZERS.index(one["row"]["tool"]), one["bug"]))
