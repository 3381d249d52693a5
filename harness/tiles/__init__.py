"""The selected tile per GPU, technique, backend, head_dim and mask: one TOML file per GPU, made by `tune`.

[cp_async_pipeline.cuda]
d128-causal = { block_m = 64, block_n = 64, stages = 1, warps = 4, tried = 6, run = "20261121-101500-tune" }
"""

from __future__ import annotations

import fcntl
import os
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from harness.problem import Problem, Tile

FOLDER = Path(__file__).parent


@dataclass(frozen=True, order=True)
class Selection:
    """The fastest of `tried` tiles, measured in `run`, the stem of its file. `cell` is d<head_dim>-<mask>."""

    technique: str
    backend: str
    cell: str
    tile: Tile
    tried: int
    run: str


def cell(problem: Problem) -> str:
    return f"d{problem.head_dim}-{'causal' if problem.causal else 'full'}"


def best_tile(technique: str, backend: str, problem: Problem, gpu: str | None) -> Tile | None:
    """The tile selected for `gpu` (a slug such as h200), None when nothing was tuned for this cell yet."""
    path = FOLDER / f"{gpu}.toml"
    if gpu is None or not path.exists():
        return None
    selections = _read(path, path.stat().st_mtime_ns)
    return next(
        (
            one.tile
            for one in selections
            if (one.technique, one.backend, one.cell) == (technique, backend, cell(problem))
        ),
        None,
    )


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
        _merge(path, selections)
    finally:
        os.close(folder)


def _merge(path: Path, selections: Iterable[Selection]) -> None:
    merged = {(one.technique, one.backend, one.cell): one for one in (read(path) if path.exists() else [])}
    merged |= {(one.technique, one.backend, one.cell): one for one in selections}
    lines = [f"# The fastest tiles on {path.stem}, selected by `twinkernels tune`."]
    table = None
    for _, one in sorted(merged.items()):
        if table != (table := f"[{one.technique}.{one.backend}]"):
            lines += ["", table]
        lines.append(f"{one.cell} = {_inline(one)}")
    temporary = path.with_suffix(".new")
    temporary.write_text("\n".join(lines) + "\n")
    os.replace(temporary, path)


def _inline(selection: Selection) -> str:
    tile = selection.tile.to_dict()
    extra = ", ".join(f"{name} = {value}" for name, value in tile.pop("extra").items())
    entries = [f"{name} = {value}" for name, value in tile.items()] + ([f"extra = {{ {extra} }}"] if extra else [])
    return "{ " + ", ".join([*entries, f"tried = {selection.tried}", f'run = "{selection.run}"']) + " }"


@cache
def _read(path: Path, changed_ns: int) -> list[Selection]:
    return read(path)
