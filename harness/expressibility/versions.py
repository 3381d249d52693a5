"""What several Tritons make of the same kernels: each compiles them here, and their machine code is compared."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from harness.build import machine_code, tritons
from harness.catalog import sources
from harness.expressibility import child, claims, programs
from harness.expressibility.programs import Texts
from harness.expressibility.verdicts import first_error
from harness.operators.protocol import Problem

Compiled = dict[str, dict[str, Texts]]
"""Program -> version of Triton -> its texts."""
LONGEST = 200
"""Characters shown of a line of TTGIR."""
RESOURCES = {"registers": "registers", "stack": "spill bytes", "shared": "shared memory", "warps": "warps"}
"""A fact of child.py -> what it is."""


@dataclass(frozen=True)
class File:
    """A file of the user's: its `run()` launches the kernels, or `kernel` has a `signature` (child.of_signature)."""

    path: Path
    arch: str
    kernel: str = ""
    signature: str | None = None
    options: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Twin(claims.Twin):
    of: Problem

    @property
    def problem(self) -> Problem:
        return self.of

    @property
    def label(self) -> str:
        return f"{self.technique} in {self.backend}, {self.of.slug} {self.tile} {self.arch}"


def of_file(file: File, versions: Sequence[str]) -> tuple[Compiled, dict[str, str]]:
    """The file's programs, and by version what ended its `run()` early. Raises tritons.MissingTriton."""
    request: dict[str, object] = {"root": str(sources.ROOT), "run": str(file.path), "arch": file.arch}
    request |= {"kernel": file.kernel, "signature": file.signature, "options": dict(file.options)}
    found: Compiled = {}
    ended = {}
    for version in versions:
        by_name = programs.of_file(request, version)
        words = by_name.pop(child.RUN, {}).get("words", "")
        if last := [line for line in words.splitlines() if re.match(r"\S*(Error|Exception)\b|the process ended", line)]:
            ended[version] = last[-1]
        for name, texts in by_name.items():
            found.setdefault(name, {})[version] = texts
    return found, ended


def of_twins(twins: Iterable[Twin], versions: Sequence[str]) -> Compiled:
    """Kernels of the ladders by their labels. Raises tritons.MissingTriton."""
    found: Compiled = {twin.label: {} for twin in twins}
    for (twin, version), texts in programs.compiled((twin, version) for twin in twins for version in versions):
        assert isinstance(twin, Twin)
        found[twin.label][version] = texts
    return found


@dataclass(frozen=True)
class Difference:
    """From one program to another. `moved`: resource or instruction -> how many before and after. `ttgir`: the first
    line in which their IR parts, of each with its number. `failed`: what each compiler said that failed."""

    is_same: bool
    moved: Mapping[str, tuple[int, int]]
    ttgir: tuple[tuple[int, str], tuple[int, str]] | None
    failed: tuple[str, str]


def difference(one: Texts, other: Texts) -> Difference:
    failed = _failure(one), _failure(other)
    if any(failed):
        return Difference(failed[0] == failed[1], {}, None, failed)
    (census, digest), (other_census, other_digest) = (machine_code.count(each["sass"]) for each in (one, other))
    facts, other_facts = (_facts(each) for each in (one, other))
    counts = [(RESOURCES[name], facts.get(name, 0), other_facts.get(name, 0)) for name in RESOURCES]
    counts += [
        (name, census.get(name, 0), other_census.get(name, 0)) for name in dict.fromkeys((*census, *other_census))
    ]
    moved = {name: (before, after) for name, before, after in counts if before != after}
    return Difference(digest == other_digest and not moved, moved, _parting(one["ttgir"], other["ttgir"]), failed)


def _failure(texts: Texts) -> str:
    """Why there is no program; empty where there is one."""
    if "sass" in texts:
        return ""
    return first_error(texts["words"])[:300] if texts else "no such program"


def _facts(texts: Texts) -> dict[str, int]:
    return {name: int(value) for name, value in (line.split() for line in texts["facts"].splitlines())}


def _parting(one: str, other: str) -> tuple[tuple[int, str], tuple[int, str]] | None:
    """None where the two have the same operations; names of values and places in the source do not count. Of a long
    line it is the part around the difference, without names."""
    for mine, theirs in zip_longest(_operations(one), _operations(other), fillvalue=(0, "(nothing more)", "")):
        if mine[2] != theirs[2]:
            same = next((at for at, pair in enumerate(zip(mine[2], theirs[2], strict=False)) if len(set(pair)) > 1), 0)
            start = max(same - LONGEST // 2, 0)
            shown = [
                line if len(line) <= LONGEST else compared[start:][:LONGEST] for _, line, compared in (mine, theirs)
            ]
            return (mine[0], shown[0]), (theirs[0], shown[1])
    return None


def _operations(ttgir: str) -> list[tuple[int, str, str]]:
    """(number, line, what is compared of it) of each operation: no place in the source, no list of options, no head of
    a function, and one spelling of a descriptor's type. Constants come last and sorted: compilers order them
    differently."""
    found: list[tuple[int, str, str]] = []
    constants: list[tuple[int, str, str]] = []
    for number, line in enumerate(ttgir.splitlines(), 1):
        plain = re.sub(r" loc\((?:[^()]|\([^()]*\))*\)", "", line).strip()
        if plain and not re.match(r"#loc|module attributes|tt\.func", plain):
            spelled = re.sub(r"tensordesc<tensor<([^<>]*)>>", r"tensordesc<\1>", plain)
            one = number, plain, re.sub(r"%[\w#.]+", "%", spelled)
            (constants if "= arith.constant" in plain else found).append(one)
    return [*found, *sorted(constants, key=lambda one: one[2])]


def is_known(version: str) -> bool:
    """Whether this Triton is here, or one may be downloaded: a number such as 3.9.0."""
    return tritons.is_here(version) or re.fullmatch(r"\d+(\.\w+)+", version) is not None
