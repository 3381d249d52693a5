"""How long one cell took over the commits at which it was recorded: from the recorded rows of every commit that changed
them.

A point is one timing row: when and at which commit it was measured, on which board, its median and its anchor's. The
rows are read from git, so that what a newer row replaced is a point too. Change-point tools read `csv`.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.catalog.problem import ANCHOR
from harness.rows import noise, results, summary
from harness.rows.reading import Row, cell, median_ms, tflops

COMMIT = 7
"""Digits of a commit: earlier environment rows have no more."""
Progress = Callable[[int, int], object]


@dataclass(frozen=True, order=True)
class Point:
    """One measurement. `time` is UTC, ISO 8601; `ms` and `anchor_ms` are medians, `ratio` is ms / anchor_ms, None where
    the group had no anchor; `source` are the first digits of the kernel's hash."""

    time: str
    commit: str | None
    board: str | None
    source: str | None
    ms: float
    tflops: float
    anchor_ms: float | None
    ratio: float | None


class Unknown(ValueError):
    """No recorded row is of the cell, or git has no history of them."""


def points(rows: Iterable[Row], words: Sequence[str], mode: str = "burst") -> dict[str, list[Point]]:
    """Cell -> its points, oldest first, for each cell that has all of these words in its name. Where none has, a part
    of a problem or tile, such as d128 or b4-h16, stands for it."""
    rows = list(rows)
    timings = noise.Timings(rows)
    anchors = {noise.group(row): median_ms(row) for row in timings.rows if row["backend"] == ANCHOR}
    names = {cell(row) for row in timings.rows if row.get("mode") == mode}
    asked = {name for name in names if set(words) <= set(name.split())}
    asked = asked or {name for name in names if all(_holds(name, word) for word in words)}
    found: dict[str, dict[Any, Point]] = {}
    for row in timings.rows:
        name = cell(row)
        if row.get("mode") != mode or name not in asked:
            continue
        ms, anchor = median_ms(row), anchors.get(noise.group(row))
        commit = (timings.environments.get(row.get("environment", ""), {}).get("git") or {}).get("sha")
        point = Point(
            row["time"],
            commit and commit[:COMMIT],
            timings.board(row),
            row.get("source_sha256") and row["source_sha256"][:12],
            ms,
            tflops(row),
            anchor,
            anchor and ms / anchor,
        )
        # A measurement whose source has another hash by now, with the same machine code, is one point: its newest row.
        found.setdefault(name, {}).setdefault((row["time"], noise.group(row)), point)
    return {name: sorted(some.values(), key=lambda point: point.time) for name, some in sorted(found.items())}


def recorded(folder: Path, experiment: str, progress: Progress = lambda done, total: None) -> list[dict[str, Any]]:
    """The rows of an experiment of one GPU (a folder of reports/recorded). Raises Unknown where there are none."""
    rows = results.read_recorded(folder.parent, folder.name, experiment)
    if not rows:
        there = sorted({path.parent.name for path in results.recorded(folder.parent, folder.name)})
        argument, got = ("experiment", experiment) if there else ("gpu", folder.name)
        known = there or sorted({name for name, _ in results.iter_recorded(folder.parent)})
        raise Unknown(f"--{argument}: got {got!r}, but recorded is {', '.join(known) or 'nothing'}")
    return rows


def words(folder: Path, experiment: str) -> set[str]:
    """Those of the cells that are recorded, without reading their rows."""
    found = set()
    for path in folder.glob(f"*/{experiment}/{summary.NAME}"):
        with path.open() as text:
            found |= {word for line in csv.DictReader(text) for word in line["cell"].split()}
    return found


def to_csv(points: Iterable[Point]) -> str:
    """One line per point, with a header; the first column is the time."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(Point.__dataclass_fields__), lineterminator="\n")
    writer.writeheader()
    writer.writerows(map(asdict, points))
    return text.getvalue()


def _holds(name: str, word: str) -> bool:
    return any(f"-{word}-" in f"-{each}-" for each in name.split())
