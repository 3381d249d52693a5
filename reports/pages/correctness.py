"""The page about correctness in one screen: what the gates and the sanitizers say of every twin."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from harness.catalog import experiments, planted, sources
from harness.catalog.entries import Technique
from harness.catalog.techniques import SERIES, rungs
from harness.rows import reading, results
from reports.data.dataset import Dataset, Row, grouped
from reports.facts.sanitizers import Sanitized, planted_in, sanitized, sees_copies
from reports.pages.common import Hole, group_holes
from reports.pages.findings import GATED

PATH = "evidence/correctness.html"
QUEUES = {"cuda": "ld_st.cuh", "gluon": "gluon_warpgroups.py"}
"""Language -> the file that writes and reads the slots by which a persistent block's producer announces its tiles."""
BULK_COPIES = {"tma.cuh", "ld_st.cuh"}
"""The files of cp.async.bulk, which writes the numbers of a tile's rows, and of the loads that read them."""
QUEUE_BUG = "slot_freed_while_read"
"""The planted bug that is a race there."""
CAUSES = {
    "idle_barriers": "The compiler’s: barriers that nobody uses are never invalidated",
    "shared_memory": "The tile needs more shared memory than a block of the GPU has. A program that another Triton "
    "compiled meets that limit only when the driver loads it",
    "earlier": "The kernel has changed since",
    "earlier_gate": "The gate has been corrected since, and has not run again",
    "unknown": "Not known yet",
}
Sanitizers = list[tuple[Technique, dict[tuple[str, str], Sanitized]]]


def page(datasets: Sequence[Dataset]) -> dict[str, Any]:
    table = [(technique, sanitized(datasets, technique)) for technique in rungs()]
    ran = {name for _, tools in table for name in tools}
    lines = judged_lines(datasets)
    failed = [row for line in lines for one in line.by_backend.values() for row in one.failed if not line.earlier]
    return {
        "lines": lines,
        "series": [name for name in SERIES if any(name in line.by_backend for line in lines)],
        "experiments": by_experiment(datasets),
        "failed": failures(datasets),
        "causes": CAUSES,
        "checks": sum(one.passed for line in lines for one in line.by_backend.values()) + len(failed),
        "failures": len(failed),
        "outdated": sum(one.outdated for line in lines for one in line.by_backend.values()),
        "where": [data.provenance(rows) for data in datasets if (rows := _gates(data))],
        "sanitized": table if ran else [],
        "ran": [name for name in product(SERIES, results.SANITIZERS) if name in ran],
        "has_series": sources.has_series,
        "queues": queues(table),
        "queue_bug": planted.find(QUEUE_BUG),
        "bulk_copies": bulk_copies(table),
        "planted": planted_bugs(datasets),
    }


@dataclass(frozen=True)
class Judged:
    """The verdicts of gates: how many passed, how many problems the kernel declined, and the largest error of an
    element over the yardstick's largest. `outdated`: verdicts with other inputs or limits than this checkout's."""

    passed: int
    declined: int
    failed: list[Row]
    worst: float
    outdated: int


def judged(rows: Iterable[Row]) -> Judged:
    rows = list(rows)
    verdicts = [row for row in rows if row["status"] != "unsupported"]
    failed = [row for row in verdicts if row["status"] != "passed"]
    worst = max((row.error for row in verdicts if row.error is not None), default=0.0)
    outdated = sum(map(reading.of_earlier_gate, verdicts))
    return Judged(len(verdicts) - len(failed), len(rows) - len(verdicts), failed, worst, outdated)


@dataclass(frozen=True)
class Failure:
    """Failed checks of one technique and language, for one of CAUSES. `now`: the gates of a kernel that has changed."""

    technique: str
    language: str
    cause: str
    rows: list[Row]
    now: Judged | None

    @property
    def holes(self) -> list[Hole]:
        return group_holes(self.rows)


def failures(datasets: Sequence[Dataset]) -> list[Failure]:
    """Failed checks of cells not checked again since: also by other Tritons, and of earlier versions of a kernel."""
    gates = [row for data in datasets for row in data.newest if row.kind == "gate" and row.technique]
    failed = [row for row in gates if row.status not in ("passed", "unsupported")]
    found = []
    by_cause = grouped(failed, lambda row: (row.technique, _language(row), _cause(row)))
    current = grouped((row for row in gates if row.current), lambda row: (row.technique, row.backend))
    for (name, language, cause), rows in by_cause.items():
        mine = current.get((name, rows[0].backend), [])
        found.append(Failure(name, language, cause, rows, judged(mine) if cause == "earlier" else None))
    return sorted(found, key=lambda one: (list(CAUSES).index(one.cause), -len(one.rows)))


def _language(row: Row) -> str:
    return str(row.backend.partition("@")[0])


def _cause(row: Row) -> str:
    if not row.current:
        return "earlier"
    if "cuFuncSetAttribute" in (row.reason or ""):
        return "shared_memory"
    if row.get("gate") and reading.of_earlier_gate(row):
        return "earlier_gate"
    return "idle_barriers" if (_language(row), row.technique) == ("triton", GATED[1]) else "unknown"


@dataclass(frozen=True)
class Line:
    """One technique. `earlier`: all its rows are about an earlier version of the kernel."""

    technique: Technique
    by_backend: dict[str, Judged]
    earlier: bool


def judged_lines(datasets: Sequence[Dataset]) -> list[Line]:
    """Every technique that was checked, over all datasets of its operator and all experiments."""
    lines = []
    for technique in rungs():
        own = [data for data in datasets if data.operator.name == technique.operator]
        gates = [row for data in own for row in data.of("gate", technique.name) if row.backend in SERIES]
        rows = [row for row in gates if row.current] or gates
        if rows:
            by_backend = {name: judged(some) for name, some in grouped(rows, lambda row: row.backend).items()}
            lines.append(Line(technique, by_backend, not rows[0].current))
    return lines


def _gates(data: Dataset) -> list[Row]:
    return [row for row in data.newest if row.kind == "gate" and row.technique and row.current]


def by_experiment(datasets: Sequence[Dataset]) -> list[tuple[str, str, Judged]]:
    """(experiment, what it asks, its verdicts) of this checkout's kernels, the most verdicts first."""
    asked = {name: experiments.question(name) for name in experiments.files()}
    found = grouped((row for data in datasets for row in _gates(data)), lambda row: row.experiment)
    names = {name: asked.get(name.removesuffix(reading.SHARED_PTXAS), "") for name in found}
    return sorted(((name, names[name], judged(found[name])) for name in found), key=lambda one: -one[2].passed)


def queues(table: Sanitizers) -> dict[str, int]:
    """Language -> in how many persistent kernels racecheck reports the queue of tiles."""
    return Counter(
        backend
        for technique, tools in table
        for backend, file in QUEUES.items()
        if (said := tools.get((backend, "racecheck"))) and sources.is_persistent(technique.path)
        if any(_files(line) == {file} for line in said.reasons)
    )


def bulk_copies(table: Sanitizers) -> int:
    """In how many CUDA kernels racecheck reports a buffer that cp.async.bulk fills."""
    said = [tools[name] for _, tools in table if (name := ("cuda", "racecheck")) in tools]
    return sum(any(_files(line) == BULK_COPIES for line in one.reasons) for one in said)


def _files(finding: str) -> set[str]:
    return set(re.findall(r"([\w.]+):\d+", finding))


def planted_bugs(datasets: Sequence[Dataset]) -> list[dict[str, Any]]:
    """Did a tool find a planted bug, does a run on a CPU? `unseen_copy`: it missed that TMA overwrites what is read."""
    diagnoses = {bug.name: bug.diagnosis for bug in planted.bugs()}
    found = [
        {
            "row": row,
            "bug": bug,
            "on_cpu": (on_cpu := diagnoses.get(bug)),
            "earlier": not row.current,
            "unseen_copy": row.status == "wrong" and on_cpu == "race" and not sees_copies(row),
        }
        for data in datasets
        for row in data.newest
        if row.kind == "sanitizer" and (bug := planted_in(row))
    ]
    return sorted(found, key=lambda one: (results.SANITIZERS.index(one["row"]["tool"]), one["bug"]))
