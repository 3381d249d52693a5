"""From two compiled programs to a verdict on a proof. Standard library only."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from harness import operators
from harness.catalog import sources, techniques
from harness.expressibility import detectors
from harness.expressibility.claims import HATCHES, Claim, Program, Proof, Twin

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


def source_sha256(proof: Proof, root: Path | None = None) -> str:
    """A hash of what decides the verdict: both programs with their code, the detector, and which program it must match.
    A row with another hash is of an earlier version of the proof. Names and sentences do not count.
    Raises FileNotFoundError when a program has no file."""
    programs: list[Any] = [proof.subject, proof.control]
    decides = [*map(asdict, programs), asdict(proof.detector), proof.seen]
    digest = hashlib.sha256(json.dumps(decides, sort_keys=True).encode())
    for program in (proof.subject, proof.control):
        digest.update(program_sha256(program, root).encode())
    return digest.hexdigest()


def program_sha256(program: Program, root: Path | None = None) -> str:
    """A hash of the program's code and of everything in this checkout that it imports or includes."""
    if isinstance(program, Twin):
        return sources.source_sha256(program.backend, techniques.at(program.technique, program.problem).path, root)
    path = (root or sources.ROOT) / program.file
    if not path.is_file():
        raise FileNotFoundError(f"probe {program.name}: no file {program.file}; add it, or name another")
    texts = (sources.code((root or sources.ROOT) / file) for file in files_of(program, root))
    return hashlib.sha256("".join(texts).encode()).hexdigest()


def problems(claims: Iterable[Claim], root: Path | None = None) -> list[str]:
    """What is wrong with claims as they stand, before anything is compiled; empty when nothing is.

    A cell has one claim for a version, and a name belongs to one proof. A grade agrees with its proofs: what is
    inexpressible is obtained by none of three attempts or more (the obvious source, the best workaround, a hatch); any
    other grade without a fault has a proof that obtains it, whose source says the claim's word: one of HATCHES for a
    hatch, none of them for direct and hint, no word at all for automatic.
    """
    found: list[str] = []
    seen: set[tuple[str, str, str]] = set()
    names: dict[str, Proof] = {}
    for claim in claims:
        who = f"{claim.technique} in {claim.dialect}"
        for version in claim.holds_for:
            if (*claim.cell, version) in seen:
                found.append(f"{who}: two claims for {version or 'it'}")
            seen.add((*claim.cell, version))
        for proof in claim.proofs:
            if names.setdefault(proof.name, proof) != proof:
                found.append(f"{proof.name}: the name of two proofs")
        found += [f"{who}, graded {claim.grade}: {fault}" for fault in _disagreements(claim, root or sources.ROOT)]
    return found


def _disagreements(claim: Claim, root: Path) -> Iterator[str]:
    obtaining = [proof for proof in claim.proofs if proof.obtains]
    if claim.grade == "inexpressible":
        if obtaining:
            yield f"{obtaining[0].name} obtains it"
        if len(claim.proofs) < 3:
            yield f"{len(claim.proofs)} attempts, expected 3 or more"
        return
    if not claim.proofs or (not obtaining and not claim.fault):
        yield "no proof obtains it"
    if claim.grade == "automatic" and claim.word:
        yield f"the source says {claim.word}"
    if claim.grade in ("direct", "hint", "hatch") and claim.dialect != "cuda":
        if not claim.word:
            yield "no word of the source is named"
        if bool(re.search(HATCHES, claim.word)) is not (claim.grade == "hatch"):
            yield f"its word is {claim.word!r}"
    for proof in obtaining:
        if not re.search(claim.word, sources.code(path_of(proof.subject, root))):
            yield f"{proof.name}: its source does not say {claim.word!r}"


def files_of(program: Program, root: Path | None = None) -> list[str]:
    """The program's own file, and the one that probes of cuTile share where it is one of them."""
    own = file_of(program, root)
    shared = (Path(own).with_name("assemble.py"),) if not isinstance(program, Twin) else ()
    return [own, *(path.as_posix() for path in shared if ((root or sources.ROOT) / path).is_file())]


def file_of(program: Program, root: Path | None = None) -> str:
    """The program's own file, from the root of the repository, or of the folder of an operator that was registered."""
    if isinstance(program, Twin):
        return path_of(program, root).relative_to(root or operators.root(program.problem.operator)).as_posix()
    return program.file


def path_of(program: Program, root: Path | None = None) -> Path:
    """Where the program's own file is."""
    if isinstance(program, Twin):
        return sources.kernel_file(program.backend, techniques.at(program.technique, program.problem).path, root)
    return (root or sources.ROOT) / program.file
