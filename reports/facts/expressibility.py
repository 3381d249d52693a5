"""What each language can say of a technique, from rows of compiled probes, and what core Triton costs there."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.catalog import sources
from harness.catalog.entries import Technique
from harness.expressibility import matrix, verdicts
from harness.expressibility.matrix import Cell, Mark
from harness.operators.protocol import Problem
from reports.data.dataset import Dataset, Point, Ratio
from reports.data.names import LANGUAGES
from reports.facts import steps

WORDS: dict[str | None, str] = {
    "direct": "written",
    "automatic": "compiler",
    "hint": "hint",
    "hatch": "hatch",
    "inexpressible": "impossible",
    None: "not graded yet",
}
"""Grade -> the word beside its mark."""
LONG = {
    "direct": "written by you",
    "automatic": "done by the compiler, no off switch",
    "hint": "hint: the compiler decides",
    "hatch": "escape hatch, outside the language: it compiles",
    "inexpressible": "impossible",
}


@dataclass(frozen=True)
class Said:
    """A technique in a language, by the newest version whose proofs have rows. `grade` is None where none has."""

    technique: str
    grade: str | None = None
    fault: str | None = None
    says: str = ""
    version: str = ""
    since: str = ""
    """The first version for which it holds, where an older one differs."""
    cell: Cell | None = None

    @property
    def counts(self) -> str | None:
        """The grade by which it counts: none with a fault, which gives the program nothing."""
        return None if self.fault else self.grade

    @property
    def word(self) -> str:
        return WORDS[self.grade]

    @property
    def strip(self) -> dict[str, str]:
        """Version -> the grade and fault that are proven for it, or in which state its proofs are."""
        marks = self.cell.marks if self.cell else {}
        return {version: _text(mark) for version, mark in marks.items() if version}

    @property
    def proofs(self) -> tuple[matrix.Shown, ...]:
        """What was compiled in that version."""
        return self.cell.marks[self.version].proofs if self.cell else ()


@dataclass(frozen=True)
class Cost:
    """Triton over CUDA, both with one class of tensor-core instructions. `same`: at CUDA's reference tile; `best`: each
    at its best tile. `program`: the technique whose kernel Triton's twin is again, so that its time is no cost of this
    one. `dropped`: the machine code shows that the compiler did not do what the source asks."""

    same: Ratio | None
    best: Ratio | None
    program: str | None
    dropped: bool


Known = Mapping[tuple[str, str], Said]
"""(technique, language) -> what its probes say. Cells that are proven in no version are left out."""


def said(rows: Iterable[Mapping[str, Any]]) -> Known:
    """`rows`: of kind probe, as reports/recorded/compilers has them. Both tables: no row of one is of the other."""
    found: dict[tuple[str, str], Said] = {}
    rows = list(rows)
    for cell in (*matrix.cells(rows), *matrix.rivals(rows)):
        proven = [version for version, mark in cell.marks.items() if mark.state == verdicts.PROVEN]
        if not proven:
            continue
        newest = proven[-1]
        mark = cell.marks[newest]
        marks = {version: (cell.marks[version].grade, cell.marks[version].fault) for version in proven}
        alike = [version for version in proven if marks[version] == marks[newest]]
        older = [version for version in proven if version < alike[0]]
        since = alike[0] if older else ""
        name = (cell.technique, cell.dialect)
        found[name] = Said(cell.technique, mark.grade, mark.fault, mark.says, newest, since, cell)
    return found


def said_of(technique: str, known: Known, languages: Iterable[str] = LANGUAGES) -> dict[str, Said]:
    """Language -> what it says of one technique."""
    return {language: known.get((technique, language), Said(technique)) for language in languages}


def cost(data: Dataset, problem: Problem, technique: Technique) -> Cost:
    """Without numbers where it was not timed in both languages."""
    twins = [(technique, "triton"), (technique, "cuda")]
    same, best = (steps.together(data, problem, twins, at_best) for at_best in (False, True))
    dropped = steps.hint_dropped(data, technique, "triton", problem, same[0])

    def ratio(points: Sequence[Point]) -> Ratio | None:
        classes = {(point.row and point.row.mma) for point in points}
        return data.ratio(*points) if len(classes) == 1 else None

    return Cost(ratio(same), ratio(best), sources.same_program(technique.path, "triton"), dropped)


def _text(mark: Mark) -> str:
    if mark.state != verdicts.PROVEN:
        return mark.state
    return WORDS[mark.grade] + (f", {mark.fault}" if mark.fault else "")
