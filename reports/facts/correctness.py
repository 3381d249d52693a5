"""Is every twin right? The gates of two experiments and NVIDIA's sanitizers, technique by technique; and the flagship's
gates on random problems."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from harness.catalog import experiments, sources, techniques
from harness.catalog.entries import Technique
from harness.catalog.planted import bugs
from harness.catalog.problem import Problem, Tile
from harness.catalog.techniques import SERIES, TECHNIQUES
from harness.rows import reading, results
from reports.data.dataset import Dataset, Row
from reports.data.titles import title

EXPERIMENTS = ("correctness", "any_length")
RANDOM = "random_problems"
"""Has one kernel and too many problems for a matrix."""
LOADED_BY_TMA = ("tma", "hopper")
"""Ladders whose kernels have K and V written to shared memory by TMA."""

Cell = tuple[str, int, bool, str]
"""dtype, head_dim, causal, layout."""


@dataclass
class Judged:
    """All gates of one twin in one cell, over lengths, head groupings and distributions."""

    passed: int = 0
    declined: int = 0
    failed: list[Row] = field(default_factory=list)
    worst: float = 0.0
    """The largest error of an element over the yardstick's largest."""
    distributions: set[str] = field(default_factory=set)
    earlier: bool = False
    """The rows are of an earlier version of the kernel, because there are no others."""
    earlier_gate: int = 0
    """Verdicts of a gate whose inputs or limits were others than this checkout's."""

    def add(self, row: Row) -> None:
        if row["status"] == "unsupported":
            self.declined += 1
            return
        self.earlier_gate += reading.of_earlier_gate(row)
        if row["status"] == "passed":
            self.passed += 1
        else:
            self.failed.append(row)
        numerics = row.get("numerics") or {}
        self.distributions |= set(numerics)
        self.worst = max([self.worst, *(ratio for numbers in numerics.values() for ratio in _ratio(numbers))])


@dataclass
class Matrix:
    """What one dataset's gates say of one backend: technique -> cell -> Judged."""

    experiment: str
    where: str
    backend: str
    cells: list[Cell]
    lines: list[tuple[Technique, dict[Cell, Judged], Judged]]
    distributions: list[str]
    lengths: list[str]
    gated: int
    """Cells of the grid in which this checkout's kernels have a verdict, declined ones among them. Other runs may have
    gated further problems."""
    cells_in_all: int | None
    """Cells of the experiment's whole grid, one per technique and problem; None on a CPU, which has another grid."""

    @property
    def earlier(self) -> bool:
        return any(whole.earlier for *_, whole in self.lines)

    @property
    def earlier_gate(self) -> int:
        return sum(whole.earlier_gate for *_, whole in self.lines)

    @property
    def verdicts(self) -> int:
        return sum(whole.passed + len(whole.failed) for *_, whole in self.lines)

    @property
    def failed(self) -> list[Row]:
        return [row for *_, whole in self.lines for row in whole.failed]


def matrices(datasets: Sequence[Dataset]) -> list[Matrix]:
    """One per dataset, experiment and backend that has gate rows."""
    found = []
    for data in datasets:
        gates = [row for row in data.newest if row["kind"] == "gate"]
        for experiment, backend in product(EXPERIMENTS, SERIES):
            rows = [row for row in gates if (row.get("experiment"), row["backend"]) == (experiment, backend)]
            if rows:
                found.append(_matrix(data, experiment, backend, _current_or_earlier(rows, data)))
    return found


@dataclass(frozen=True)
class Block:
    """One language's part of a picture of an experiment's errors. `errors`: technique -> cell -> the largest error over
    the yardstick; infinite where the gate failed, None where it was not asked or the kernel declines."""

    backend: str
    cells: list[Cell]
    titles: list[str]
    errors: list[list[float | None]]


def told_of_earlier_gate(
    data: Dataset, names: Collection[str] | None = None, asked: Collection[str] | None = None
) -> str:
    """How many of the checkout's kernels of these techniques an earlier gate was the last to check in the experiments
    asked for; of all where none are named. Empty where it was none."""
    gates = (
        row
        for row in data.newest
        if row["kind"] == "gate"
        and (names is None or row.get("technique") in names)
        and (asked is None or row.get("experiment") in asked)
        and reading.is_current(row, data.hashes)
    )
    return reading.told_of_earlier_gate(*reading.last_checked(gates))


def blocks(found: Sequence[Matrix]) -> list[Block]:
    """Of the matrices of one experiment: each language over every technique that one of them has."""
    names = {technique.name for matrix in found for technique, *_ in matrix.lines}
    rows = [technique.name for technique in TECHNIQUES if technique.name in names]
    cells = sorted({cell for matrix in found for cell in matrix.cells}, key=_place)
    made = []
    for matrix in found:
        judged = {technique.name: by_cell for technique, by_cell, _ in matrix.lines}
        errors = [[_error(judged.get(name, {}).get(cell)) for cell in cells] for name in rows]
        made.append(Block(matrix.backend, cells, [title(name) for name in rows], errors))
    return made


def worst(found: Sequence[Block]) -> tuple[float, str, str]:
    """The largest error of a picture, its technique's title and its language."""
    return max(
        (error, name, block.backend)
        for block in found
        for name, errors in zip(block.titles, block.errors, strict=True)
        for error in errors
        if error is not None
    )


def _error(judged: Judged | None) -> float | None:
    if judged is None or not (judged.passed or judged.failed):
        return None
    return math.inf if judged.failed else judged.worst


def _place(cell: Cell) -> tuple[Any, ...]:
    return cell[0] != "fp16", cell


def failed_elsewhere(datasets: Sequence[Dataset]) -> list[Row]:
    """Gates that a kernel of this checkout failed in an experiment that has no matrix here."""
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


@dataclass(frozen=True)
class RandomProblems:
    """What one dataset's gates say of a kernel on the problems of the experiment RANDOM. `rows` are its verdicts."""

    where: str
    technique: str
    backend: str
    rows: list[Row]
    earlier: bool
    """The rows are of an earlier version of the kernel, because there are no others."""

    @property
    def problems(self) -> set[str]:
        return {reading.slug(row) for row in self.rows}

    @property
    def failed(self) -> set[str]:
        """At whatever tile."""
        return {reading.slug(row) for row in self.rows if row["status"] != "passed"}

    @property
    def earlier_gate(self) -> int:
        return sum(reading.of_earlier_gate(row) for row in self.rows)


def random_problems(datasets: Sequence[Dataset]) -> list[RandomProblems]:
    """One per dataset and kernel of the experiment that has a verdict."""
    grid = experiments.load(RANDOM)
    asked = {problem.slug for problem in grid.problems}
    found = []
    for data, technique, backend in product(datasets, grid.techniques, grid.backends):
        gates = [
            row
            for row in data.newest
            if (row["kind"], row.get("experiment")) == ("gate", RANDOM)
            and (row.get("technique"), row["backend"]) == (technique, backend)
            and row["status"] != "unsupported"
            and reading.slug(row) in asked
        ]
        if rows := _current_or_earlier(gates, data):
            earlier = not reading.is_current(rows[0], data.hashes)
            found.append(RandomProblems(data.provenance(rows), technique, backend, rows, earlier))
    return found


@dataclass(frozen=True)
class Sanitized:
    """What one tool says of one twin, over the problems that it was run on."""

    rows: list[Row]
    earlier: bool
    """They are about an earlier version of the kernel."""

    @property
    def sees_all(self) -> bool:
        return _sees_copies(self.rows[0])

    @property
    def passed(self) -> int:
        return sum(row["status"] == "passed" for row in self.rows)

    @property
    def launched(self) -> int:
        return sum(row["status"] != "unsupported" for row in self.rows)

    @property
    def program(self) -> str | None:
        """The technique whose program this twin is again: it ran once."""
        return (self.rows[0].get("details") or {}).get("same_program")

    @property
    def declined(self) -> list[str]:
        """Why the tool or the kernel cannot do some of the problems, each reason once."""
        return list(dict.fromkeys(str(row.get("reason")) for row in self.rows if row["status"] == "unsupported"))

    @property
    def reasons(self) -> list[str]:
        """Of all that failed, each once: status and reason, then what the tool found."""
        failed = [row for row in self.rows if row["status"] not in ("passed", "unsupported")]
        reasons = [f"{row['status']}: {row.get('reason')}" for row in failed]
        return list(dict.fromkeys([*reasons, *(line for row in failed for line in findings(row))]))


def sanitized(datasets: Sequence[Dataset], technique: Technique) -> dict[tuple[str, str], Sanitized]:
    """(backend, tool) -> what it says of the twin, of an earlier version where it was not run on the checkout's."""
    found: dict[tuple[str, str], dict[bool, list[Row]]] = {}
    for data in datasets:
        for row in data.of("sanitizer", technique.name):
            if not _planted(row):
                rows = found.setdefault((row["backend"], row["tool"]), {True: [], False: []})
                rows[reading.is_current(row, data.hashes)].append(row)
    return {name: Sanitized(rows[True] or rows[False], not rows[True]) for name, rows in found.items()}


def sanitizer_table(datasets: Sequence[Dataset]) -> list[tuple[Technique, dict[tuple[str, str], Sanitized | None]]]:
    """Every technique, with what each tool that ran says of its twin: None where it did not run on this twin, nothing
    where there is no twin of that language. Empty where no tool ran at all."""
    found = [(technique, sanitized(datasets, technique)) for technique in TECHNIQUES]
    ran = {name for _, tools in found for name in tools}
    return [
        (
            technique,
            {
                (backend, tool): tools.get((backend, tool))
                for backend, tool in sorted(ran)
                if sources.has_series(backend, technique.path)
            },
        )
        for technique, tools in found
        if ran
    ]


def of_one_tile(datasets: Sequence[Dataset]) -> list[Technique]:
    """The persistent CUDA kernels that the tools passed only on problems with at most as many tiles as blocks: they saw
    none go on from one tile to another."""
    found = []
    for technique in TECHNIQUES:
        if sources.is_persistent(technique.path):
            several = [
                Problem.from_dict(row["problem"]).query_tiles(Tile.from_dict(row["tile"])) > data.multiprocessors(row)
                for data in datasets
                for (backend, _), one in sanitized([data], technique).items()
                for row in one.rows
                if backend == "cuda" and row["status"] == "passed"
            ]
            found += [technique] if several and not any(several) else []
    return found


QUEUES = {"cuda": "ld_st.cuh", "gluon": "gluon_warpgroups.py"}
"""Language -> the file that writes and reads the slots by which a persistent block's producer tells its tiles."""
QUEUE_BUG = "slot_freed_while_read"
"""The planted bug that is a race there."""


def reported_queues(datasets: Sequence[Dataset]) -> dict[str, list[Technique]]:
    """Language -> the persistent kernels of which racecheck reports the queue of tiles."""
    found: dict[str, list[Technique]] = {}
    for technique, (backend, file) in product(TECHNIQUES, QUEUES.items()):
        said = sanitized(datasets, technique).get((backend, "racecheck"))
        if said and sources.is_persistent(technique.path) and any(file in line for line in said.reasons):
            found.setdefault(backend, []).append(technique)
    return found


@dataclass(frozen=True)
class Planted:
    """A tool, and a kernel with a planted bug. `on_cpu` is the name that a run on a CPU gives the bug, by its test."""

    row: Row
    bug: str
    on_cpu: str | None
    earlier: bool

    @property
    def found(self) -> bool:
        return self.row["status"] == "passed"

    @property
    def unseen_copy(self) -> bool:
        """The tool was silent where TMA overwrites what is still read."""
        return not _sees_copies(self.row) and self.row["status"] == "wrong" and self.on_cpu == "race"


def planted(datasets: Sequence[Dataset]) -> list[Planted]:
    """Kernels with a planted bug, by tool."""
    names = {bug.name: bug.diagnosis for bug in bugs()}
    found = [
        Planted(row, bug, names.get(bug), not reading.is_current(row, data.hashes))
        for data in datasets
        for row in data.newest
        if row["kind"] == "sanitizer" and (bug := _planted(row))
    ]
    return sorted(found, key=lambda one: (results.SANITIZERS.index(one.row["tool"]), one.bug))


def findings(row: Row) -> list[str]:
    """What a sanitizer found, a line each."""
    return list((row.get("details") or {}).get("findings") or [])


def _sees_copies(row: Row) -> bool:
    """Racecheck watches loads and stores of threads, not what TMA writes to shared memory."""
    return row["tool"] != "racecheck" or techniques.get(row["technique"]).ladder not in LOADED_BY_TMA


def _planted(row: Row) -> str | None:
    return (row.get("details") or {}).get("planted")


def _current_or_earlier(rows: Iterable[Row], data: Dataset) -> list[Row]:
    """The rows of the checkout's kernels, and of each that has none all that there are."""
    rows = list(rows)
    current = [row for row in rows if reading.is_current(row, data.hashes)]
    names = {row["technique"] for row in current}
    return current + [row for row in rows if row["technique"] not in names]


def _matrix(data: Dataset, experiment: str, backend: str, rows: Sequence[Row]) -> Matrix:
    judged: dict[str, dict[Cell, Judged]] = {}
    whole: dict[str, Judged] = {}
    lengths: dict[str, None] = {}
    for row in rows:
        problem = Problem.from_dict(row["problem"])
        cell = (problem.dtype, problem.head_dim, problem.causal, problem.layout)
        judged.setdefault(row["technique"], {}).setdefault(cell, Judged()).add(row)
        one = whole.setdefault(row["technique"], Judged(earlier=not reading.is_current(row, data.hashes)))
        one.add(row)
        lengths[f"{problem.seq_q}×{problem.seq_kv}, heads {problem.heads}/{problem.heads_kv}"] = None
    grid = experiments.load(experiment)
    asked = {problem.slug for problem in grid.problems}
    current = [row for row in rows if reading.is_current(row, data.hashes)]
    in_series = [name for name in grid.techniques if sources.has_series(backend, techniques.get(name).path)]
    return Matrix(
        experiment,
        data.provenance(rows),
        backend,
        sorted({cell for cells in judged.values() for cell in cells}, key=_place),
        [
            (technique, judged[technique.name], whole[technique.name])
            for technique in TECHNIQUES
            if technique.name in judged
        ],
        sorted({name for one in whole.values() for name in one.distributions}),
        sorted(lengths),
        len({(row["technique"], reading.slug(row)) for row in current if reading.slug(row) in asked}),
        len(grid.problems) * len(in_series) if all(row["on"] == "gpu" for row in rows) else None,
    )


def _ratio(numbers: dict[str, Any]) -> list[float]:
    """Of one distribution, as a list: empty where nothing was compared, infinite where the error is not finite."""
    if "max_abs" not in numbers:
        return []
    error, yardstick = numbers["max_abs"], numbers.get("yardstick")
    if error is None:
        return [math.inf]
    return [error / yardstick] if yardstick else []
