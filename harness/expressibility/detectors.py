"""Detectors: what of a compiled program's texts matches. Standard library only."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby

from harness.expressibility.claims import TEXTS, Detector

SHOWN = 12
"""Different matches that a verdict keeps."""
WIDTH = 160
"""Characters that it keeps of each."""


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
