"""The selected tile per GPU, technique, backend and cell of problems: harness/operators/<operator>/tiles/<gpu>.toml,
made by `tune`. A problem names its cells, the narrowest first.

[cp_async_pipeline.cuda]
d128-full = { block_m = 64, block_n = 64, stages = 1, warps = 4, tried = 6, run = "20261121-101500-tune" }
d128-full-short = { block_m = 64, block_n = 32, stages = 1, warps = 4, tried = 6, run = "20261121-101500-tune" }
"""

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar

from harness import operators
from harness.catalog import sources
from harness.catalog.entries import Tile, require_int32
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

    def __post_init__(self) -> None:
        require_int32("tried", self.tried)
        for name in ("technique", "backend", "cell", "run"):
            if not re.fullmatch(r"[\w@.-]+", text := str(getattr(self, name)), re.ASCII):
                raise ValueError(f"{name}: got {text!r}, expected letters, digits, _, -, . and @")


def folder(operator: str) -> Path:
    return operators.get(operator).folder / "tiles"


def all_tables() -> list[Path]:
    return [path for name in operators.names() for path in sorted(folder(name).glob("*.toml"))]


def tables(operator: str, gpu: str | None, place: Path | None = None) -> list[Path]:
    """The tables of an operator that serve a GPU, its own first, in its folder or in `place`. Those of the H200 and the
    H100 serve every Hopper GPU for what its own lacks."""
    hopper = ("h200", "h100") if re.match(r"g?h\d", gpu or "") else ()
    names = dict.fromkeys((gpu, *hopper) if gpu else ())
    return [path for name in names if (path := (place or folder(operator)) / f"{name}.toml").exists()]


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
    """The tile selected for `gpu` (a slug such as h200), None when nothing was tuned for this cell yet: of the
    first of `tables` that has one."""
    for path in tables(problem.operator, gpu):
        if found := pick(by_cell(path), technique.rpartition("/")[2], backend, problem):
            return found.tile
    return None


def read(path: Path) -> list[Selection]:
    """All selections of a file. Raises sources.Unreadable, which names the line or the entry."""
    found = []
    content = path.read_bytes()
    try:
        table = tomllib.loads(content.decode())
    except ValueError as error:
        line = f":{content[: error.start].count(10) + 1}" if isinstance(error, UnicodeDecodeError) else ""
        raise sources.Unreadable(
            f"{path}{line}: {error}, expected tiles that `twinkernels tune` wrote; restore it from git"
        ) from None
    for technique, backends in table.items():
        for backend, cells in backends.items() if isinstance(backends, dict) else [("", backends)]:
            for name, entry in cells.items() if isinstance(cells, dict) else [("", cells)]:
                try:
                    tile = {key: value for key, value in entry.items() if key not in ("tried", "run")}
                    found.append(
                        Selection(technique, backend, name, Tile.from_dict(tile), entry["tried"], entry["run"])
                    )
                except (AttributeError, KeyError, TypeError, ValueError) as error:
                    entry_of = ".".join(filter(None, (technique, backend, name)))
                    raise sources.Unreadable(
                        f"{path}: {entry_of}: got {entry!r}, expected block_m, block_n, stages, warps, tried and run "
                        f"({error}); `twinkernels tune` writes it anew"
                    ) from None
    return found


def update(path: Path, selections: Iterable[Selection]) -> None:
    """Puts `selections` into the file, in place of what it had for the same cells; atomically, in sorted order.

    Processes that tune on several GPUs of a host take turns.
    """
    with sources.locked(path.parent):
        _write(path, [*(read(path) if path.exists() else []), *selections])


def _write(path: Path, selections: Iterable[Selection]) -> None:
    """The last selection of each cell, in sorted order."""
    merged = {(one.technique, one.backend, one.cell): one for one in selections}
    lines = [f"# The fastest tiles on {path.stem}, selected by `twinkernels tune`."]
    table = None
    for _, one in sorted(merged.items()):
        if table != (table := f"[{_key(one.technique)}.{_key(one.backend)}]"):
            lines += ["", table]
        lines.append(f"{_key(one.cell)} = {_inline(one)}")
    sources.put(path, ("\n".join(lines) + "\n").encode())


def _key(name: str) -> str:
    """A key of TOML, in quotes where it is not bare: "tlx@3.8.0"."""
    return name if re.fullmatch(r"[\w-]+", name, re.ASCII) else f'"{name}"'


def _inline(selection: Selection) -> str:
    tile = selection.tile.to_dict()
    extra = ", ".join(f"{name} = {value}" for name, value in tile.pop("extra").items())
    entries = [f"{name} = {value}" for name, value in tile.items()] + ([f"extra = {{ {extra} }}"] if extra else [])
    return "{ " + ", ".join([*entries, f"tried = {selection.tried}", f'run = "{selection.run}"']) + " }"


def by_cell(path: Path) -> Mapping[tuple[str, str, str], Selection]:
    """(technique, backend, cell) -> what a file selects, which is read once. Raises sources.Unreadable."""
    return _by_cell(path, path.stat().st_mtime_ns)


@cache
def _by_cell(path: Path, changed_ns: int) -> dict[tuple[str, str, str], Selection]:
    return {(one.technique, one.backend, one.cell): one for one in read(path)}
