"""The selected tile per GPU, technique, backend and cell of problems: harness/operators/<operator>/tiles/<gpu>.toml,
made by `tune`. A problem names its cells, the narrowest first.

[cp_async_pipeline.cuda]
d128-full = { block_m = 64, block_n = 64, stages = 1, warps = 4, tried = 6, run = "20261121-101500-tune" }
d128-full-short = { block_m = 64, block_n = 32, stages = 1, warps = 4, tried = 6, run = "20261121-101500-tune" }
"""

from __future__ import annotations

import fcntl
import os
import re
import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TypeVar

from harness import operators
from harness.catalog import sources
from harness.catalog.entries import Tile
from harness.operators.protocol import Problem

Of = TypeVar("Of")


@dataclass(frozen=True, order=True)
class Selection:
    """The fastest of `tried` tiles, measured in `run`, the stem of its file. `cell` is one of the problem's."""

    technique: str
    backend: str
    cell: str
    tile: Tile
    tried: int
    run: str


def folder(operator: str) -> Path:
    """Where an operator's tables are."""
    return operators.get(operator).folder / "tiles"


def all_tables() -> list[Path]:
    """The tables of all operators."""
    return [path for name in operators.names() for path in sorted(folder(name).glob("*.toml"))]


def tables(operator: str, gpu: str | None) -> list[Path]:
    """The tables of an operator that serve a GPU, its own first."""
    names = [] if gpu is None else [gpu, "h200"] if re.match(r"g?h\d", gpu) else [gpu]
    return [path for name in dict.fromkeys(names) if (path := folder(operator) / f"{name}.toml").exists()]


def compared_with(backend: str) -> str:
    """The series of the installed Triton beside which a backend is timed: gluon of gluon@3.9.0 and of tlx@3.8.0."""
    series = backend.partition("@")[0]
    return "gluon" if series == "tlx" else series


def pick(by_cell: Mapping[tuple[str, str, str], Of], technique: str, backend: str, problem: Problem) -> Of | None:
    """The entry of the problem's narrowest cell that has one, else None. Other Tritons without a tile of their own are
    compared at the installed one's, TLX at Gluon's. `by_cell`: (technique, backend, cell) -> a tile, or what else one
    knows."""
    names = ((technique, series, name) for series in (backend, compared_with(backend)) for name in problem.cells)
    return next((by_cell[name] for name in names if name in by_cell), None)


def best_tile(technique: str, backend: str, problem: Problem, gpu: str | None) -> Tile | None:
    """The tile selected for `gpu` (a slug such as h200), None when nothing was tuned for this cell yet. A Hopper GPU
    takes from the H200's table what its own does not have."""
    for path in tables(problem.operator, gpu):
        if found := pick(_by_cell(path, path.stat().st_mtime_ns), technique, backend, problem):
            return found
    return None


def read(path: Path) -> list[Selection]:
    """All selections of a file. Raises ValueError naming the file and the entry that cannot be read."""
    found = []
    for technique, backends in tomllib.loads(path.read_text()).items():
        for backend, cells in backends.items():
            for name, entry in cells.items():
                try:
                    tried, run = entry.pop("tried"), entry.pop("run")
                    found.append(Selection(technique, backend, name, Tile.from_dict(entry), tried, run))
                except (AttributeError, KeyError, TypeError, ValueError) as error:
                    raise ValueError(
                        f"{path.name}: {technique}.{backend}.{name}: got {entry!r}, expected block_m, block_n, stages, "
                        f"warps, tried and run ({error}); `twinkernels tune` writes it anew"
                    ) from None
    return found


def update(path: Path, selections: Iterable[Selection]) -> None:
    """Puts `selections` into the file, in place of what it had for the same cells; atomically, in sorted order.

    Processes that tune on several GPUs of a host take turns.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        _write(path, [*(read(path) if path.exists() else []), *selections])
    finally:
        os.close(folder)


def rename(path: Path, old: str, new: str, backends: Collection[str] = ()) -> None:
    """Gives a technique another name in a file; with `backends`, only the tiles of those."""

    def renamed(one: Selection) -> Selection:
        moves = one.technique == old and (not backends or one.backend in backends)
        return replace(one, technique=new) if moves else one

    _write(path, map(renamed, read(path)))


def _write(path: Path, selections: Iterable[Selection]) -> None:
    """The last selection of each cell, in sorted order."""
    merged = {(one.technique, one.backend, one.cell): one for one in selections}
    lines = [f"# The fastest tiles on {path.stem}, selected by `twinkernels tune`."]
    table = None
    for _, one in sorted(merged.items()):
        if table != (table := f"[{one.technique}.{_key(one.backend)}]"):
            lines += ["", table]
        lines.append(f"{one.cell} = {_inline(one)}")
    sources.put(path, ("\n".join(lines) + "\n").encode())


def _key(name: str) -> str:
    """A key of TOML, in quotes where it is not bare: "tlx@3.8.0"."""
    return name if re.fullmatch(r"[\w-]+", name, re.ASCII) else f'"{name}"'


def _inline(selection: Selection) -> str:
    tile = selection.tile.to_dict()
    extra = ", ".join(f"{name} = {value}" for name, value in tile.pop("extra").items())
    entries = [f"{name} = {value}" for name, value in tile.items()] + ([f"extra = {{ {extra} }}"] if extra else [])
    return "{ " + ", ".join([*entries, f"tried = {selection.tried}", f'run = "{selection.run}"']) + " }"


@cache
def _by_cell(path: Path, changed_ns: int) -> dict[tuple[str, str, str], Tile]:
    return {(one.technique, one.backend, one.cell): one.tile for one in read(path)}
