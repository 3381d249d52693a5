"""From two compiled programs to a verdict on a proof: what of their texts a detector matches. Standard library only."""

import hashlib
import json
import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from harness import operators
from harness.catalog import sources, techniques
from harness.expressibility.claims import TEXTS, Detector, Program, Proof, Twin

PROVEN, REFUTED, BROKEN = "proven", "refuted", "broken"
SHOWN = 12
"""Different matches that a verdict keeps."""
WIDTH = 160
"""Characters that it keeps of each."""


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
    found: dict[str, Found] = {}
    for who, texts in (("control", control), ("subject", subject)):
        try:
            found[who] = find(detector, texts)
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


@dataclass(frozen=True)
class Found:
    """`times` the thing was found; `lines` show it, or the order that was looked at."""

    times: int
    lines: list[str]


def find(detector: Detector, texts: Mapping[str, str]) -> Found:
    """What the detector finds in a program's texts (of claims.TEXTS). Raises ValueError for a text that this program
    does not have, such as the machine code of one that did not compile: it cannot show that a thing is absent."""
    if detector.text not in TEXTS:
        raise ValueError(f"detector.text: got {detector.text!r}, expected one of {', '.join(TEXTS)}")
    text = texts.get(detector.text, "")
    if not text and detector.text != "words":
        raise ValueError(f"no {detector.text}: the program did not compile ({first_error(texts.get('words', ''))})")
    pieces = _loops(text) if detector.in_loop else [text]
    if detector.within is not None:
        pieces = [piece for whole in pieces for piece in _between(whole, *detector.within)]
    if detector.order is not None:
        pieces = [" ".join(_matches(detector.order, piece)) for piece in pieces]
    found = [_matches(detector.pattern, piece) for piece in pieces]
    most = max(range(len(found)), key=lambda piece: len(found[piece]), default=None)
    if most is None:
        return Found(0, [])
    if detector.order is None:
        return Found(len(found[most]), counted(found[most]))
    return Found(len(found[most]), textwrap.wrap(_runs(pieces[most].split(" ")), WIDTH)[:SHOWN])


def _matches(pattern: str, text: str) -> list[str]:
    return [each.group().strip() for each in re.finditer(pattern, text, re.MULTILINE)]


def _runs(words: Iterable[str]) -> str:
    """HGMMA x8 MUFU.EX2 x32 for eight and thirty-two in a row."""
    runs = [(word, len(list(same))) for word, same in groupby(words)]
    return " ".join(f"{word} x{n}" if n > 1 else word for word, n in runs)


def counted(found: Iterable[str]) -> list[str]:
    """Matches as a person reads them: each once, one line each, with how often it was found."""
    counts = Counter(" ".join(match.split()) for match in found)
    return [f"{match[:WIDTH]}" + (f"  x{n}" if n > 1 else "") for match, n in list(counts.items())[:SHOWN]]


def first_error(words: str) -> str:
    """The first line in which a compiler says what is wrong; its last line where none says so."""
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    errors = (line for line in lines if re.search(r"error:|Assertion|Error:", line))
    return next(errors, lines[-1] if lines else "it said nothing")[: 2 * WIDTH]


def _between(text: str, begin: str, end: str) -> list[str]:
    """The lines after each line that matches `begin`, up to the next that matches `end`. Without such an end they are
    left out."""
    pieces: list[str] = []
    inside: list[str] | None = None
    for line in text.splitlines():
        if inside is not None and re.search(end, line):
            pieces.append("\n".join(inside))
            inside = None
        if re.search(begin, line):
            inside = []
        elif inside is not None:
            inside.append(line)
    return pieces


def _loops(sass: str) -> list[str]:
    """The instructions of every loop of a disassembly, from the target of its backward branch, written twice: the next
    iteration begins after the branch."""
    from harness.build import instruction_order

    bodies = [loop for code in instruction_order.functions(sass) for loop in instruction_order.loops(code)]
    return ["\n".join(f"{one.opcode} {one.operands}" for one in (*body, *body)) for body in bodies]
