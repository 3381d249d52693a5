"""Is every twin right? The gate of the experiment `correctness`, and NVIDIA's sanitizers, technique by technique."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness import scorecard
from harness.problem import Problem
from harness.techniques import TECHNIQUES, TWINS, Technique
from reports.dataset import Dataset, Row

EXPERIMENT = "correctness"
TOOLS = ("memcheck", "synccheck", "racecheck", "initcheck")

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

    def add(self, row: Row) -> None:
        if row["status"] == "unsupported":
            self.declined += 1
            return
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

    where: str
    backend: str
    cells: list[Cell]
    lines: list[tuple[Technique, dict[Cell, Judged], Judged]]
    distributions: list[str]
    lengths: list[str]

    @property
    def failed(self) -> list[Row]:
        return [row for *_, whole in self.lines for row in whole.failed]


def matrices(datasets: Sequence[Dataset]) -> list[Matrix]:
    """One per dataset and backend that has gate rows of the experiment."""
    found = []
    for data in datasets:
        rows = [
            row
            for row in data.newest
            if (row["kind"], row.get("experiment")) == ("gate", EXPERIMENT) and scorecard.is_current(row, data.hashes)
        ]
        for backend in TWINS:
            ours = [row for row in rows if row["backend"] == backend]
            if ours:
                found.append(_matrix(data.provenance(ours[0]), backend, ours))
    return found


@dataclass(frozen=True)
class Sanitized:
    """What one tool says of one CUDA twin, over the problems that it was run on."""

    rows: list[Row]

    @property
    def passed(self) -> int:
        return sum(row["status"] == "passed" for row in self.rows)

    @property
    def reasons(self) -> list[str]:
        """Of all that is not a pass, each once: status and reason, then what the tool found."""
        failed = [row for row in self.rows if row["status"] != "passed"]
        told = [f"{row['status']}: {row.get('reason')}" for row in failed]
        return list(dict.fromkeys([*told, *(line for row in failed for line in findings(row))]))


def sanitized(datasets: Sequence[Dataset], technique: Technique) -> dict[str, Sanitized]:
    """Tool -> what it says of the checkout's CUDA twin."""
    found: dict[str, list[Row]] = {}
    for row in _sanitizer_rows(datasets):
        if (row.get("technique"), row["backend"]) == (technique.name, "cuda") and not _planted(row):
            found.setdefault(row["mode"], []).append(row)
    return {tool: Sanitized(rows) for tool, rows in found.items()}


def sanitizer_table(datasets: Sequence[Dataset]) -> list[tuple[Technique, dict[str, Sanitized]]]:
    return [(technique, tools) for technique in TECHNIQUES if (tools := sanitized(datasets, technique))]


def planted(datasets: Sequence[Dataset]) -> list[Row]:
    """Rows about kernels with a planted bug: passed where the tool found it."""
    rows = [row for row in _sanitizer_rows(datasets) if _planted(row)]
    return sorted(rows, key=lambda row: (TOOLS.index(row["mode"]), _planted(row)))


def findings(row: Row) -> list[str]:
    """What a sanitizer found, a line each."""
    return list((row.get("details") or {}).get("findings") or [])


def _planted(row: Row) -> str | None:
    return (row.get("details") or {}).get("planted")


def _matrix(where: str, backend: str, rows: Iterable[Row]) -> Matrix:
    judged: dict[str, dict[Cell, Judged]] = {}
    whole: dict[str, Judged] = {}
    lengths: dict[str, None] = {}
    for row in rows:
        problem = Problem.from_dict(row["problem"])
        cell = (problem.dtype, problem.head_dim, problem.causal, problem.layout)
        judged.setdefault(row["technique"], {}).setdefault(cell, Judged()).add(row)
        whole.setdefault(row["technique"], Judged()).add(row)
        lengths[f"{problem.seq_q}×{problem.seq_kv}, heads {problem.heads}/{problem.heads_kv}"] = None
    return Matrix(
        where,
        backend,
        sorted({cell for cells in judged.values() for cell in cells}, key=lambda cell: (cell[0] != "fp16", cell)),
        [
            (technique, judged[technique.name], whole[technique.name])
            for technique in TECHNIQUES
            if technique.name in judged
        ],
        sorted({name for one in whole.values() for name in one.distributions}),
        sorted(lengths),
    )


def _ratio(numbers: dict[str, Any]) -> list[float]:
    """Of one distribution, as a list: empty where nothing was compared, infinite where the error is not finite."""
    if "max_abs" not in numbers:
        return []
    error, yardstick = numbers["max_abs"], numbers.get("yardstick")
    if error is None:
        return [math.inf]
    return [error / yardstick] if yardstick else []


def _sanitizer_rows(datasets: Sequence[Dataset]) -> list[Row]:
    return [
        row
        for data in datasets
        for row in data.newest
        if row["kind"] == "sanitizer" and scorecard.is_current(row, data.hashes)
    ]
