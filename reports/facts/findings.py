"""What the whole matrix adds up to: the sentences above it, and what changed between versions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from harness.catalog import techniques
from harness.expressibility import verdicts
from harness.operators.attention.problem import Problem
from harness.rows import reading
from reports.data.dataset import Dataset, Row
from reports.facts import matrix, processes, sanitizers
from reports.facts.answer import Answer
from reports.facts.expressibility import Known, Said
from reports.facts.processes import Spread

BEYOND = ("hatch", "inexpressible")
"""Grades of what core Triton's own language does not do."""
OVERLAP, HEAD_DIM = "overlapped_softmax", 128
"""The technique whose source puts every exponential after a product is issued and before its result is needed."""


@dataclass(frozen=True)
class Hatch:
    """A kernel of core Triton past its language that was timed: its speed over that of the twin in the language, from
    `low` to `high` over `problems`, and tool -> the first thing that compute-sanitizer's tools found in it."""

    experiment: str
    technique: str
    low: float
    high: float
    problems: int
    findings: Mapping[str, str]


@dataclass(frozen=True)
class Gated:
    """What an experiment's gates say of a cell, as the installed version of its compiler makes it: at which tiles the
    result is right, at which wrong, and the first reason; and the other versions with which those that are wrong are
    right, or wrong too."""

    experiment: str
    version: str
    right: tuple[str, ...]
    wrong: tuple[str, ...]
    reason: str
    right_in: tuple[str, ...]
    wrong_in: tuple[str, ...]


@dataclass(frozen=True)
class Findings:
    """`grades`: grade -> how many techniques have it in core Triton, of `techniques`. `gains`: technique -> what it
    gives CUDA over its parent, None where that was not timed. `written`: language -> how many of those beyond core
    Triton it writes, faults apart. `speeds`: language -> TFLOPS of its best kernel with wgmma on `problem`. `kept`:
    backend -> exponentials of the overlap that the machine code has while a product is in flight, and all; `kept_at`:
    the tile of that kernel."""

    techniques: int
    grades: Mapping[str | None, int]
    gains: Mapping[str, Mapping[str, Spread | None]]
    written: Mapping[str, int]
    problem: Problem | None
    speeds: Mapping[str, float | None]
    kept: Mapping[str, tuple[int, int] | None]
    hatch: Hatch | None = None
    kept_at: Mapping[str, str] = field(default_factory=dict)

    @property
    def beyond(self) -> int:
        """How many techniques core Triton's own language does not do."""
        return sum(self.grades[grade] for grade in BEYOND)


def findings(
    known: Known, data: Dataset, found: Answer | None, inspected: Sequence[Row], hashes: reading.Hashes
) -> Findings:
    """`found`: the first page's answer. `inspected`: rows of machine code that compilers alone made."""
    triton = {technique: said.grade for (technique, language), said in known.items() if language == "triton"}
    problem = found.problem if found else None

    def gain(technique: str) -> Spread | None:
        return matrix.gain(data, problem, technique) if problem else None

    beyond = {grade: [name for name, its in triton.items() if its == grade] for grade in BEYOND}
    names = [name for some in beyond.values() for name in some]
    said = {language: [known.get((name, language)) for name in names] for language in ("gluon", "tlx")}
    overlap = _overlap([*inspected, *data.newest], hashes)
    return Findings(
        len(triton),
        {grade: list(triton.values()).count(grade) for grade in matrix.ORDER},
        {grade: {name: gain(name) for name in some} for grade, some in beyond.items()},
        {language: sum(one is not None and one.counts == "direct" for one in some) for language, some in said.items()},
        problem,
        {language: found.bar("wgmma", language).tflops if found else None for language in ("triton", "gluon", "tlx")},
        {backend: _during_products(row) if row else None for backend, row in overlap.items()},
        timed_hatch(data),
        {backend: reading.tile_slug(row) for backend, row in overlap.items() if row},
    )


def timed_hatch(data: Dataset) -> Hatch | None:
    """None where none was timed."""
    for experiment, name in dict.fromkeys(
        (row["experiment"], row["technique"]) for row in data.timings() if row["backend"] == techniques.HATCH
    ):
        pairs = (
            [data.point(experiment, problem, name, backend) for backend in (techniques.HATCH, "triton")]
            for problem in data.problems(experiment)
        )
        speeds = [over.value for ours, theirs in pairs if (over := processes.over(data, ours, theirs))]
        if speeds:
            tools = sanitizers.sanitized([data], techniques.get(name))
            reasons = {tool: one.reasons for (backend, tool), one in tools.items() if backend == techniques.HATCH}
            found = {tool: some[-1] for tool, some in reasons.items() if some}
            return Hatch(experiment, name, min(speeds), max(speeds), len(speeds), found)
    return None


def gated(known: Known, data: Dataset) -> dict[tuple[str, str], Gated]:
    """(technique, language) -> what gates say of it, for claims that name an experiment of gates."""
    found: dict[tuple[str, str], Gated] = {}
    for name, said in known.items():
        claim = said.cell.newest.claim if said.cell else None
        if claim is None or not claim.gates:
            continue
        versions: dict[str, list[Row]] = {}
        for row in data.newest:
            language, _, version = row["backend"].partition("@")
            is_asked = (row["kind"], row.get("experiment"), language) == ("gate", claim.gates, claim.dialect)
            if is_asked and reading.is_current(row, data.hashes):
                versions.setdefault(version, []).append(row)
        rows = versions.pop("", [])
        tiles = {
            status: tuple(sorted({reading.tile_slug(row) for row in rows if row["status"] == status}))
            for status in ("passed", "wrong")
        }
        reason = next((str(row["reason"]) for row in rows if row["status"] == "wrong"), "")
        there = {
            version: {row["status"] for row in others if reading.tile_slug(row) in tiles["wrong"]} & {*tiles}
            for version, others in sorted(versions.items())
        }
        if rows:
            right_in, wrong_in = (
                tuple(version for version, statuses in there.items() if statuses == {status})
                for status in ("passed", "wrong")
            )
            release = techniques.RELEASES[0]
            found[name] = Gated(claim.gates, release, tiles["passed"], tiles["wrong"], reason, right_in, wrong_in)
    return found


def _overlap(rows: Iterable[Row], hashes: reading.Hashes) -> dict[str, Row | None]:
    """Backend -> the machine code of its kernel of the overlap, at its reference tile where that is known."""
    found: dict[str, Row | None] = dict.fromkeys(("cuda", "gluon", "triton"))
    asked = [
        row
        for row in rows
        if row.get("technique") == OVERLAP
        and (row.get("code") or {}).get("main_loop")
        and row.get("arch") == "sm_90a"
        and (row["problem"]["head_dim"], row["problem"]["causal"]) == (HEAD_DIM, False)
        and reading.is_current(row, hashes)
    ]
    for row in sorted(asked, key=reading.is_reference_tile):
        found[row["backend"]] = row
    return found


def _during_products(row: Row) -> tuple[int, int]:
    loop = row["code"]["main_loop"]
    return loop["under_products"]["exponentials"], loop["all"]["exponentials"]


@dataclass(frozen=True)
class Change:
    """A cell whose grade or fault is not the same in every version. `lost`: an older version does more than the
    newest."""

    technique: str
    language: str
    said: Said

    @property
    def lost(self) -> bool:
        *older, newest = self._ranks()
        return any(rank < newest for rank in older)

    def _ranks(self) -> list[tuple[bool, int]]:
        """Of each proven version, the oldest first: the lower, the more it does."""
        marks = self.said.cell.marks.values() if self.said.cell else ()
        return [(bool(m.fault), matrix.ORDER[m.grade]) for m in marks if m.state == verdicts.PROVEN]


def changes(known: Known) -> list[Change]:
    """Cells that differ between versions; first those that lost something."""
    found = [Change(*name, said) for name, said in known.items() if said.cell and said.cell.changes]
    return sorted(found, key=lambda change: not change.lost)
