"""Rows outlive what does not change the machine code: a row of an earlier source counts again where that source and
this checkout's compile to the same instructions. Standard library only; whoever calls brings the compiler.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from harness.catalog import techniques
from harness.catalog.problem import Problem, Tile
from harness.rows import reading
from harness.rows.reading import Hashes

Row = dict[str, Any]


@dataclass(frozen=True)
class Program:
    """What is compiled to learn its machine code. `commit` is where the sources of `source_sha256` are looked for first
    if they are not this checkout's. `compiler` is (front end, ptxas), such as ("nvcc 13.0.88", "13.0.88"): with another
    one the answer means nothing."""

    technique: str
    backend: str
    problem: Problem
    tile: Tile
    arch: str
    source_sha256: str
    compiler: tuple[str, str]
    commit: str | None = None


@dataclass(frozen=True)
class Unknown:
    """In place of a hash of machine code: why there is none."""

    reason: str


Compile = Callable[[Sequence[Program]], Iterable[tuple[Program, str | Unknown]]]
"""Each program with the SHA-256 of its instructions, in any order."""
Identify = Callable[[Sequence[Program]], Iterable[tuple[Program, str | Unknown]]]
"""Each program with a name. Programs with equal names are given to the compiler alike, so that they have equal machine
code. Names are quick to know, machine code is not."""


@dataclass
class Renewal:
    """What became of the rows of earlier sources."""

    renewed: int = 0
    """Same machine code: they count as this checkout's."""
    different: int = 0
    unknown: Counter[str] = field(default_factory=Counter)
    """Reason -> how many rows could not be compared for it."""
    sources: dict[tuple[Any, ...], str] = field(default_factory=dict)
    """(*program, earlier source) -> this checkout's, of renewed rows: what else belongs to a program follows."""


def due(rows: Iterable[Row], hashes: Hashes) -> list[Row]:
    """Rows of earlier sources that were not compared with this checkout yet."""
    found = []
    for row in rows:
        now = hashes.get((row.get("technique", ""), row.get("backend", "")))
        known = not row.get("source_sha256") or now in (None, row.get("differs_from"))
        if not known and not reading.is_current(row, hashes):
            found.append(row)
    return found


def renew(
    rows: Sequence[Row],
    hashes: Hashes,
    compile: Compile,
    chosen: Callable[[Row], bool] | None = None,
    identify: Identify = lambda programs: (),
) -> Renewal:
    """Compares every row that is due (and `chosen`) with this checkout, and changes it in place. `rows` are all
    recorded ones, with their environments.

    Nothing is compiled where `identify` gives this checkout's program the name of the one that was measured, or of the
    one as which the row counted so far (that had the same machine code) or which it differs from (that had not). Nor is
    machine code that a row of the same program, source and compiler tells. What is left is compiled: this checkout's
    sources, and those of the commit that the row's environment names. A row of the same machine code gets this
    checkout's `source_sha256`, and `renewed_from`, the source that was measured. Another one gets `differs_from` and
    stays of an earlier version.
    """
    known = take_machine_code(rows)
    outcome = Renewal()
    asked = _asked((row for row in due(rows, hashes) if not chosen or chosen(row)), rows, hashes, outcome)
    unread = [one for one in asked if any(code is None for _, code in one.sides(known))]
    named = _distinct(side for one in unread for side in (one.here, *one.equals, *one.unequals))
    names = {program: name for program, name in identify(named) if isinstance(name, str)} if named else {}
    wanted = _distinct(
        side for one in asked if one.proven(names) is None for side, code in one.sides(known) if code is None
    )
    answers = dict(compile(wanted)) if wanted else {}
    for one in asked:
        same = one.proven(names)
        if same is None:
            was, now_is = (code or answers.get(side, Unknown("not compiled")) for side, code in one.sides(known))
            if unknown := next((code for code in (was, now_is) if isinstance(code, Unknown)), None):
                outcome.unknown[unknown.reason] += 1
                continue
            if machine_code(one.row) is None:
                one.row["sass_sha256"] = was
            same = was == now_is
        if same:
            outcome.sources[*program(one.row), one.row["source_sha256"]] = one.here.source_sha256
            one.row["renewed_from"] = measured_source(one.row)
            one.row["source_sha256"] = one.here.source_sha256
            one.row.pop("differs_from", None)
            outcome.renewed += 1
        else:
            one.row["differs_from"] = one.here.source_sha256
            outcome.different += 1
    return outcome


@dataclass(frozen=True)
class _Asked:
    """A row that is compared: the program that it measured, and this checkout's."""

    row: Row
    then: Program
    here: Program

    @property
    def equals(self) -> list[Program]:
        """Programs of the machine code that the row measured: as measured, and as which it counted so far."""
        return [self.then, replace(self.then, source_sha256=self.row["source_sha256"])]

    @property
    def unequals(self) -> list[Program]:
        """Programs of other machine code: that of the checkout with which the row was last compared."""
        return [replace(self.then, source_sha256=self.row["differs_from"])] if "differs_from" in self.row else []

    def sides(self, known: Mapping[str, str]) -> list[tuple[Program, str | None]]:
        """Then and now, each with its machine code as rows tell it. `known`: what take_machine_code returns."""
        now_is = known.get(_name(self.row, self.here.source_sha256, self.here.compiler))
        return [(self.then, machine_code(self.row)), (self.here, now_is)]

    def proven(self, names: Mapping[Program, str]) -> bool | None:
        """Whether names show that the machine code is the same, or another one; None where they do not tell."""
        if (name := names.get(self.here)) is None:
            return None
        if name in map(names.get, self.equals):
            return True
        return False if name in map(names.get, self.unequals) else None


def _asked(due: Iterable[Row], rows: Iterable[Row], hashes: Hashes, outcome: Renewal) -> list[_Asked]:
    """The rows that can be compared; `outcome` counts the others. `rows` hold the environments."""
    compilers = _Compilers(rows)
    found = []
    for row in due:
        compiler = compilers.of(row)
        if compiler is None or not row.get("tile"):
            outcome.unknown["the row names no compiler or no tile"] += 1
            continue
        here = Program(
            technique=row["technique"],
            backend=row["backend"],
            problem=Problem.from_dict(row["problem"]),
            tile=Tile.from_dict(row["tile"]),
            arch=row["arch"],
            source_sha256=hashes[row["technique"], row["backend"]],
            compiler=compiler,
        )
        commit = (compilers.environment(row).get("git") or {}).get("sha")
        found.append(_Asked(row, replace(here, source_sha256=measured_source(row), commit=commit), here))
    return found


def _distinct(programs: Iterable[Program]) -> list[Program]:
    return list(dict.fromkeys(programs))


def measured_source(row: Mapping[str, Any]) -> str:
    """Hash of the sources that were measured, whatever the row was renewed to since."""
    return str(row.get("renewed_from") or row["source_sha256"])


def machine_code(row: Mapping[str, Any]) -> str | None:
    """SHA-256 of the instructions that the row measured, None where it does not say."""
    found = (row.get("code") or {}).get("sass_sha256") or row.get("sass_sha256")
    return str(found) if found else None


def take_machine_code(rows: Sequence[Row]) -> dict[str, str]:
    """Gives every row without a hash of its machine code that of a row of the same program, source and compiler.
    Returns what is known of all: _name -> hash."""
    compilers = _Compilers(rows)
    known: dict[str, set[str]] = {}
    asked: list[tuple[Row, str]] = []
    for row in rows:
        compiler = compilers.of(row)
        if not row.get("source_sha256") or not row.get("tile") or compiler is None:
            continue
        if found := machine_code(row):
            for source in {row["source_sha256"], measured_source(row)}:
                known.setdefault(_name(row, source, compiler), set()).add(found)
        else:
            asked.append((row, _name(row, measured_source(row), compiler)))
    agreed = {name: found.pop() for name, found in known.items() if len(found) == 1}
    for row, name in asked:
        if name in agreed:
            row["sass_sha256"] = agreed[name]
    return agreed


def _name(row: Mapping[str, Any], source: str, compiler: tuple[str, str]) -> str:
    return json.dumps([program(row), row.get("arch"), source, compiler])


def program(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """What decides what is compiled, but for architecture, sources and compiler. Lengths are no constants of a CUDA
    kernel, and row strides only of some."""
    problem = Problem.from_dict(row["problem"])
    what = (row["technique"], row["backend"], reading.tile_slug(row))
    if row["backend"] != "cuda":
        return *what, problem.slug
    known = techniques.find(row["technique"])
    strides: list[int] = []
    if (known is None or known.constant_strides) and problem.layout == "bshd":
        strides = [problem.heads, problem.heads_kv]
    return *what, problem.dtype, problem.head_dim, problem.causal, *strides


class _Compilers:
    """What compiled each of these rows, of which a referee's and a sanitizer's do not say it. `rows` hold the
    environments."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._environments: dict[str, dict[str, Any]] = {}
        self._of_backend: dict[str, set[tuple[str, str]]] = {}
        for row in rows:
            if row["kind"] == "environment":
                self._environments[row["id"]] = row["details"]
            elif said := _said(row):
                self._of_backend.setdefault(row.get("backend", ""), set()).add(said)

    def environment(self, row: Row) -> dict[str, Any]:
        return self._environments.get(row.get("environment", ""), {})

    def of(self, row: Row) -> tuple[str, str] | None:
        """(front end, ptxas) of the row, or what its environment had. The environment knows the installed Triton alone:
        of another one, what all rows of its backend say that say it."""
        if said := _said(row):
            return said
        environment, backend = self.environment(row), row.get("backend", "")
        tools, software = environment.get("toolchain") or {}, environment.get("software") or {}
        if backend in techniques.AS_CUBINS:
            found = self._of_backend.get(backend, set())
            return min(found) if len(found) == 1 else None
        if backend == "cuda":
            front_end, ptxas = tools.get("nvcc") and f"nvcc {tools['nvcc']}", tools.get("ptxas")
        else:
            front_end, ptxas = software.get("triton") and f"triton {software['triton']}", tools.get("triton_ptxas")
        return (front_end, ptxas) if front_end and ptxas else None


def _said(row: Row) -> tuple[str, str] | None:
    """(front end, ptxas) as the row itself says it."""
    said = row.get("compiler") or {}
    return (said["front_end"], said["ptxas"]) if "ptxas" in said else None
