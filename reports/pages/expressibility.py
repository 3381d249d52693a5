"""The page of what each language can express: the matrix with its proofs, and what it adds up to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.catalog import techniques
from harness.catalog.techniques import RELEASES, TECHNIQUES
from harness.expressibility import matrix as proofs
from harness.expressibility import verdicts
from harness.expressibility.claims import RIVALS, VERSIONS
from harness.operators.attention.claims.rivals import ASKED
from harness.rows import reading
from reports.data.dataset import Dataset, Row, grouped
from reports.facts import matrix, processes, versions
from reports.facts.answer import Answer
from reports.facts.expressibility import LONG, Known, Said

BEYOND = ("hatch", "inexpressible")
"""Grades of what core Triton's own language does not do."""
OVERLAP, HEAD_DIM = "overlapped_softmax", 128
"""The technique whose source puts every exponential after a product is issued and before its result is needed."""


def page(
    compiled: Sequence[Mapping[str, Any]], known: Known, inspected: Sequence[Row], answer: Answer | None, data: Dataset
) -> dict[str, Any]:
    """`compiled`: rows of proofs; `inspected`: rows of machine code that compilers alone made; `answer`: the first
    page's."""
    problem = answer.problem if answer else None
    ideas = proofs.techniques_of_matrix()
    asked = [name for line in (*matrix.FIRST, *matrix.REST) for name in line.cells]
    every = ideas | {name: "" for name in asked if name not in ideas}
    return {
        "lines": [(name, idea, matrix.said_of(name, known)) for name, idea in every.items()],
        "has_page": {technique.name for technique in TECHNIQUES},
        "languages": matrix.LANGUAGES,
        "asked": [(name, idea, matrix.said_of(name, known, RIVALS)) for name, idea in ASKED.items()],
        "rivals": RIVALS,
        "long": LONG,
        "proven": proofs.proven(proofs.cells(compiled)),
        "by_version": versions.compiled([*inspected, *data.newest], data.hashes),
        "costs": {name: matrix.cost(data, problem, name).same for name in every} if problem else {},
        "changes": changes(known),
        "gated": gated(known, data),
        "versions": VERSIONS,
        "answer": answer,
        "overlap": overlap([*inspected, *data.newest], data.hashes),
        "hatch": timed_hatch(data),
        **grades(known, {name: problem and matrix.gain(data, problem, name) for name in every}),
    }


def grades(known: Known, gains: Mapping[str, Any]) -> dict[str, Any]:
    """How many techniques have each grade in core Triton; those beyond it, each with its gain in CUDA; and how many of
    these another language writes, faults apart."""
    triton = {technique: said.grade for (technique, language), said in known.items() if language == "triton"}
    beyond = {grade: [name for name, its in triton.items() if its == grade] for grade in BEYOND}
    names = [name for several in beyond.values() for name in several]
    return {
        "techniques": len(triton),
        "grades": {grade: list(triton.values()).count(grade) for grade in matrix.ORDER},
        "beyond": {grade: {name: gains.get(name) for name in several} for grade, several in beyond.items()},
        "written": {
            language: sum(known.get((name, language), Said(name)).counts == "direct" for name in names)
            for language in ("gluon", "tlx")
        },
    }


def timed_hatch(data: Dataset) -> dict[str, Any] | None:
    """The kernel past the language that was timed: its speed over core Triton's own kernel, by problem."""
    timed = [row for row in data.timings() if row["backend"] == techniques.HATCH]
    for experiment, name in dict.fromkeys((row["experiment"], row["technique"]) for row in timed):
        points = [
            [data.point(experiment, problem, name, backend) for backend in (techniques.HATCH, "triton")]
            for problem in data.problems(experiment)
        ]
        if speeds := [over.value for pair in points if (over := processes.over(data, *pair))]:
            return {"experiment": experiment, "technique": name, "low": min(speeds), "high": max(speeds)}
    return None


def gated(known: Known, data: Dataset) -> dict[tuple[str, str], dict[str, Any]]:
    """(technique, language) -> what gates on a GPU say where a claim names an experiment of gates: version -> the tiles
    at which the result is right and wrong, the installed version first, and the first reason."""
    found = {}
    for name, said in known.items():
        claim = said.cell.newest.claim if said.cell else None
        if claim and claim.gates:
            rows = [
                row
                for row in data.newest
                if (row["kind"], row.get("experiment")) == ("gate", claim.gates)
                and row["backend"].partition("@")[0] == claim.dialect
                and reading.is_current(row, data.hashes)
            ]
            by_version = grouped(rows, lambda row: row["backend"].partition("@")[2])
            wrong = [str(row["reason"]) for row in rows if row["status"] == "wrong"]
            if rows:
                found[name] = {
                    "experiment": claim.gates,
                    "reason": wrong[0] if wrong else "",
                    "tiles": {
                        version or RELEASES[0]: [_tiles(by_version[version], status) for status in ("passed", "wrong")]
                        for version in sorted(by_version)
                    },
                }
    return found


def _tiles(rows: Sequence[Row], status: str) -> list[str]:
    return sorted({reading.tile_slug(row) for row in rows if row["status"] == status})


def overlap(rows: Sequence[Row], hashes: reading.Hashes) -> dict[str, Row]:
    """Backend -> the machine code of its kernel of the overlap, at its reference tile where that is known."""
    asked = [
        row
        for row in rows
        if row.get("technique") == OVERLAP
        and (row.get("code") or {}).get("main_loop")
        and row.get("arch") == "sm_90a"
        and (row["problem"]["head_dim"], row["problem"]["causal"]) == (HEAD_DIM, False)
        and reading.is_current(row, hashes)
    ]
    return {row["backend"]: row for row in sorted(asked, key=reading.is_reference_tile)}


def changes(known: Known) -> list[tuple[Said, str, bool]]:
    """(cell, language, lost) of cells that differ between versions. First those that lost something: an older version
    does more than the newest."""
    found = []
    for (_, language), said in known.items():
        if said.cell and said.cell.changes:
            proven = [mark for mark in said.cell.marks.values() if mark.state == verdicts.PROVEN]
            *older, newest = [(bool(mark.fault), matrix.ORDER[mark.grade]) for mark in proven]
            found.append((said, language, any(rank < newest for rank in older)))
    return sorted(found, key=lambda one: not one[2])
