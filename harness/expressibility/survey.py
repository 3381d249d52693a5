"""Runs the proofs of claims: compiles what they name and judges it, and says so in rows of kind `proof`.

A row is about compilers: it was made on no GPU, and holds on every machine. It is recorded in
reports/recorded/compilers/. `technique` and `backend` (triton@3.9.0) are the cell, `proof` which proof; `details` hold
the verdict, what was seen in the subject and in the control, and how to see it again.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from harness.expressibility import matrix, programs, verdicts
from harness.expressibility.claims import Claim, Proof
from harness.expressibility.verdicts import Verdict

STATUSES = {verdicts.PROVEN: "passed", verdicts.REFUTED: "wrong", verdicts.BROKEN: "wrong"}
CHECKS = {verdicts.REFUTED: "subject", verdicts.BROKEN: "control"}
Todo = tuple[Claim, Proof, str]
"""A proof of a claim, in one version."""


def todo(claims: Iterable[Claim], versions: Iterable[str]) -> list[Todo]:
    """Every proof of the claims, in every one of `versions` for which the claim is made."""
    versions = set(versions)
    return [
        (claim, proof, version)
        for claim in claims
        for version in claim.holds_for
        if version in versions
        for proof in claim.proofs
    ]


def without_row(asked: Iterable[Todo], rows: Iterable[Mapping[str, Any]]) -> list[Todo]:
    """Those of which `rows` have none, or none of the proof and its programs as they are now."""
    fields = ("technique", "backend", "proof", "source_sha256")
    known = {tuple(row[field] for field in fields) for row in rows if row["kind"] == "proof"}
    return [
        (claim, proof, version)
        for claim, proof, version in asked
        if (claim.technique, matrix.backend(claim.dialect, version), proof.name, verdicts.source_sha256(proof))
        not in known
    ]


def run(asked: Iterable[Todo]) -> Iterator[tuple[Todo, Verdict]]:
    """Each proof with its verdict, as soon as both of its programs are compiled. Raises tritons.MissingTriton."""
    waiting = {
        each: (programs.at(each[1].subject, each[2]), programs.at(each[1].control, each[2]))
        for each in dict.fromkeys(asked)
    }
    known: dict[programs.Job, programs.Texts] = {}
    for job, texts in programs.compiled(job for pair in waiting.values() for job in pair):
        known[job] = texts
        ready = [each for each, pair in waiting.items() if job in pair and all(other in known for other in pair)]
        for each in ready:
            subject, control = waiting.pop(each)
            yield each, verdicts.judge(each[1], known[subject], known[control])


def row(each: Todo, verdict: Verdict) -> dict[str, Any]:
    """The whole row, but for its environment."""
    claim, proof, version = each
    shown = matrix.Shown(proof, version, verdict.state, verdict.reason)
    return {
        "kind": "proof",
        "on": "cpu",
        "operator": matrix.operator_of(claim),
        "experiment": "expressibility",
        "technique": claim.technique,
        "backend": matrix.backend(claim.dialect, version),
        "proof": proof.name,
        "source_sha256": verdicts.source_sha256(proof),
        "status": STATUSES[verdict.state],
        **({"reason": verdict.reason, "check": CHECKS[verdict.state]} if verdict.reason else {}),
        "details": {
            "verdict": verdict.state,
            "grade": claim.grade,
            **({"fault": claim.fault} if claim.fault else {}),
            "shows": proof.shows,
            "subject": proof.subject.label,
            "control": proof.control.label,
            "detector": {name: value for name, value in asdict(proof.detector).items() if value},
            "seen": proof.seen,
            "lines": verdict.lines,
            "control_lines": verdict.control_lines,
            "command": shown.command,
        },
    }
