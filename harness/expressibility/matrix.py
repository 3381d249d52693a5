"""The matrix as a page reads it: cells with their grade, fault, versions and proofs, from rows of kind `proof`.

A mark is proven only when all of its claim's proofs have a current row that passed: of the checkout's probes
(`source_sha256`) and of that version. A version without rows is "not run", never "holds". Standard library only.
"""

import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from harness import operators
from harness.build.tritons import PACKAGES, RIVALS
from harness.catalog import techniques
from harness.expressibility import verdicts
from harness.expressibility.claims import DIALECTS, VERSIONS, Claim, Proof, Twin

NOT_RUN, NOT_GRADED = "not run", "not graded yet"
ORDER = (verdicts.REFUTED, verdicts.BROKEN, NOT_RUN, verdicts.PROVEN)
"""Of several proofs, the first of these that one of them is."""


@dataclass(frozen=True)
class Shown:
    """One proof in one version. `lines` and `control_lines` are what the detector matched; one of the two is empty."""

    proof: Proof
    version: str
    state: str
    reason: str = ""
    lines: tuple[str, ...] = ()
    control_lines: tuple[str, ...] = ()

    @property
    def file(self) -> str:
        return verdicts.file_of(self.proof.subject)

    @property
    def control_file(self) -> str:
        return verdicts.file_of(self.proof.control)

    @property
    def rival(self) -> str | None:
        """The language of the second table that this is a proof of."""
        dialect = getattr(self.proof.subject, "dialect", None)
        return dialect if dialect in RIVALS else None

    @property
    def command(self) -> str:
        version = f" --triton {self.version}" if self.version and not self.rival else ""
        return f"twinkernels expressibility {shlex.quote(self.proof.name)}{version}"

    @property
    def needs(self) -> str:
        """What the subject needs beside a Triton, to compile; empty where it runs alone."""
        subject = self.proof.subject
        tool = "" if self.version else "nvcc"
        return " and ".join(filter(None, ("this repository" if isinstance(subject, Twin) or tool else "", tool)))

    @property
    def alone(self) -> str | None:
        """What shows it without this project; None where the subject is a kernel of the ladders or needs nvcc."""
        subject = self.proof.subject
        if self.needs:
            return None
        file = verdicts.file_of(subject)
        if self.rival:
            return f"pip install {' '.join(PACKAGES[self.rival])} && python {file}"
        plugin = " triton-utlx" if getattr(subject, "dialect", None) == "tlx" else ""
        return f"pip install triton=={self.version}{plugin} && python {file.rpartition('/')[2]}"


@dataclass(frozen=True)
class Mark:
    """A cell in one version."""

    state: str
    claim: Claim | None
    proofs: tuple[Shown, ...]

    @property
    def grade(self) -> str | None:
        return self.claim.grade if self.claim else None

    @property
    def fault(self) -> str | None:
        return self.claim.fault if self.claim else None

    @property
    def says(self) -> str:
        return self.claim.says if self.claim else ""


@dataclass(frozen=True)
class Cell:
    """A technique in a dialect: a mark for every version of the column, oldest first."""

    technique: str
    idea: str
    dialect: str
    marks: dict[str, Mark]

    @property
    def newest(self) -> Mark:
        """What the cell says at a glance: the mark of the newest version."""
        return self.marks[VERSIONS[self.dialect][-1]]

    @property
    def is_graded(self) -> bool:
        return any(mark.claim for mark in self.marks.values())

    @property
    def changes(self) -> bool:
        return len({(mark.grade, mark.fault) for mark in self.marks.values()}) > 1


def claims() -> list[Claim]:
    """Of the matrix, by all operators."""
    return [claim for of in _of_operators().values() for claim in of.CLAIMS]


def claims_of_rivals() -> list[Claim]:
    """Of the second table."""
    return [claim for of in _of_operators().values() for claim in of.OF_RIVALS]


def operator_of(claim: Claim) -> str:
    return next(name for name, of in _of_operators().items() if claim in (*of.CLAIMS, *of.OF_RIVALS))


def _of_operators() -> dict[str, Any]:
    """Operator -> what its `claims` gives."""
    return {operator.name: _made(operator.claims) for operator in operators.every() if operator.claims}


@cache
def _made(claims: Callable[[], Any]) -> Any:
    return claims()


def techniques_of_matrix() -> dict[str, str]:
    """Name -> idea of every row of the matrix: all rungs of the registry, in order, then what has no rung."""
    extra = {name: idea for of in _of_operators().values() for name, idea in of.EXTRA.items()}
    return {each.name: each.change for each in techniques.TECHNIQUES} | extra


def asked() -> dict[str, str]:
    """Name -> what is asked, of every row of the second table."""
    return {name: idea for of in _of_operators().values() for name, idea in of.ASKED.items()}


def cells(rows: Iterable[Mapping[str, Any]]) -> list[Cell]:
    """Every cell of the matrix, technique by technique, each in the order of DIALECTS."""
    return _cells(rows, claims(), techniques_of_matrix(), DIALECTS)


def rivals(rows: Iterable[Mapping[str, Any]]) -> list[Cell]:
    """Every cell of the second table, what was asked by language, each in the order of RIVALS."""
    return _cells(rows, claims_of_rivals(), asked(), RIVALS)


def _cells(
    rows: Iterable[Mapping[str, Any]],
    claims: Iterable[Claim],
    ideas: Mapping[str, str],
    dialects: Iterable[str],
) -> list[Cell]:
    newest: dict[tuple[str, str, str], Mapping[str, Any]] = {}
    probes = (row for row in rows if row["kind"] == "proof")
    for row in sorted(probes, key=lambda row: str(row.get("time"))):
        newest[row["proof"], row["backend"], row["technique"]] = row
    by_cell: dict[tuple[str, str, str], Claim] = {}
    for claim in claims:
        by_cell |= {(*claim.cell, version): claim for version in claim.holds_for}
    return [
        Cell(name, idea, dialect, {v: _mark(by_cell.get((name, dialect, v)), v, newest) for v in VERSIONS[dialect]})
        for name, idea in ideas.items()
        for dialect in dialects
    ]


def proofs() -> set[tuple[str, str]]:
    """(technique, proof) of all claims."""
    return {(claim.technique, proof.name) for claim in (*claims(), *claims_of_rivals()) for proof in claim.proofs}


def proven(found: Iterable[Cell]) -> tuple[int, int]:
    """How many cells are proven in every version of their column, and how many are graded."""
    graded = [cell for cell in found if cell.is_graded]
    return sum(all(mark.state == verdicts.PROVEN for mark in cell.marks.values()) for cell in graded), len(graded)


def not_graded(found: Iterable[Cell]) -> list[str]:
    """The techniques that no claim is about yet, in the order of the table."""
    graded: dict[str, bool] = {}
    for cell in found:
        graded[cell.technique] = graded.get(cell.technique, False) or cell.is_graded
    return [name for name, is_graded in graded.items() if not is_graded]


def backend(dialect: str, version: str) -> str:
    return f"{dialect}@{version}" if version else dialect


def _mark(claim: Claim | None, version: str, rows: Mapping[tuple[str, str, str], Mapping[str, Any]]) -> Mark:
    if claim is None:
        return Mark(NOT_GRADED, None, ())
    shown = tuple(
        _shown(proof, version, rows.get((proof.name, backend(claim.dialect, version), claim.technique)))
        for proof in claim.proofs
    )
    states = {each.state for each in shown}
    return Mark(next(state for state in ORDER if state in states), claim, shown)


def _shown(proof: Proof, version: str, row: Mapping[str, Any] | None) -> Shown:
    if row is None or row.get("source_sha256") != _sha256(proof):
        reason = "no row" if row is None else "the row is of an earlier version of this proof"
        return Shown(proof, version, NOT_RUN, reason)
    details = row["details"]
    lines, control_lines = (tuple(details.get(name, ())) for name in ("lines", "control_lines"))
    return Shown(proof, version, details["verdict"], row.get("reason", ""), lines, control_lines)


@cache
def _sha256(proof: Proof) -> str | None:
    try:
        return verdicts.source_sha256(proof)
    except FileNotFoundError:
        return None
