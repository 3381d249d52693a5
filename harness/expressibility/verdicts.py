"""From two compiled programs to a verdict on a proof. Standard library only."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from harness import operators
from harness.catalog import sources, techniques
from harness.expressibility import detectors
from harness.expressibility.claims import Program, Proof, Twin

PROVEN, REFUTED, BROKEN = "proven", "refuted", "broken"


@dataclass(frozen=True)
class Verdict:
    """`state`: proven; refuted, when the subject does not show what the proof says; broken, when the control does not
    show the opposite, so that the detector says nothing. `lines`: what was found, in the subject and in the control."""

    state: str
    reason: str = ""
    lines: list[str] = field(default_factory=list)
    control_lines: list[str] = field(default_factory=list)


def judge(proof: Proof, subject: Mapping[str, str], control: Mapping[str, str]) -> Verdict:
    """The verdict on the texts (of claims.TEXTS) of a proof's two programs."""
    detector = proof.detector
    found: dict[str, detectors.Found] = {}
    for who, texts in (("control", control), ("subject", subject)):
        try:
            found[who] = detectors.find(detector, texts)
        except ValueError as error:
            return Verdict(BROKEN if who == "control" else REFUTED, f"{who}: {error}")
    lines = (found["subject"].lines, found["control"].lines)
    for who, state, expected in (("control", BROKEN, not proof.seen), ("subject", REFUTED, proof.seen)):
        times = found[who].times
        if (times >= detector.least) is not expected:
            wanted = f"{detector.least} or more" if expected else f"fewer than {detector.least}"
            what = f"{detector.pattern!r} in {detector.text}"
            return Verdict(state, f"{who}: found {what} {times} times, expected {wanted}", *lines)
    return Verdict(PROVEN, "", *lines)


def source_sha256(proof: Proof) -> str:
    """A hash of what decides the verdict: both programs with their code, the detector, and which program it must match.
    A row with another hash is of an earlier version of the proof. Names and sentences do not count.
    Raises FileNotFoundError when a program has no file."""
    programs: list[Any] = [proof.subject, proof.control]
    decides = [*map(asdict, programs), asdict(proof.detector), proof.seen]
    digest = hashlib.sha256(json.dumps(decides, sort_keys=True).encode())
    for program in programs:
        digest.update(program_sha256(program).encode())
    return digest.hexdigest()


def program_sha256(program: Program) -> str:
    """A hash of the program's code and of everything in this checkout that it imports or includes."""
    if isinstance(program, Twin):
        return sources.source_sha256(program.backend, techniques.at(program.technique, program.problem).path)
    if not path_of(program).is_file():
        raise FileNotFoundError(f"probe {program.name}: no file {program.file}; add it, or name another")
    return hashlib.sha256("".join(sources.code(sources.ROOT / file) for file in files_of(program)).encode()).hexdigest()


def files_of(program: Program) -> list[str]:
    """The program's own file, and the one that probes of cuTile share where it is one of them."""
    shared = path_of(program).with_name("assemble.py")
    is_shared = not isinstance(program, Twin) and shared.is_file()
    return [file_of(program), *([shared.relative_to(sources.ROOT).as_posix()] if is_shared else [])]


def file_of(program: Program) -> str:
    """The program's own file, from the root of the repository, or of the folder of an operator that was registered."""
    root = operators.root(program.problem.operator) if isinstance(program, Twin) else sources.ROOT
    return path_of(program).relative_to(root).as_posix()


def path_of(program: Program) -> Path:
    if isinstance(program, Twin):
        return sources.kernel_file(program.backend, techniques.at(program.technique, program.problem).path)
    return sources.ROOT / program.file
