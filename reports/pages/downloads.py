"""The files beside the pages: what a figure shows as CSV, and the rows behind it as JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from harness.rows import reading, results
from harness.rows.reading import tile_slug
from reports.data.dataset import Dataset, Row, grouped


@dataclass(frozen=True)
class Download:
    """What a page's figures show, line by line, and the rows behind it: `name`.csv and .jsonl. A page has its own as
    "files"."""

    name: str
    lines: Sequence[Mapping[str, Any]]
    rows: Sequence[Row | None]

    def files(self) -> Iterator[tuple[str, str]]:
        """(path in the site, text)"""
        yield from _both(self.name, self.lines, self.rows)


def files(data: Dataset, first: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(path in the site, text) for each figure of the first page; `first` are that page's variables."""
    found = first.get("answer")
    if not found:
        return
    bars = [
        {"panel": bar.panel, "kernel": bar.label, "tflops": bar.tflops, **_about(bar.point.row)} for bar in found.bars
    ]
    yield from _both("answer", bars, [bar.point.row for bar in found.bars])
    steps = [
        {
            "tiles": drawn["policy"],
            "technique": step.technique.name,
            "language": language,
            "kind": step.kind,
            "before": step.before,
            "parent_at_this_tile": step.between,
            "after": step.after,
            "ratio": step.ratio.value if step.ratio else None,
            "note": step.note,
            **_about(step.point.row),
        }
        for drawn in first["steps"]
        for chain in drawn["chains"]
        for language, column in chain.columns.items()
        for step in column
    ]
    points = [
        step.point.row
        for drawn in first["steps"]
        for chain in drawn["chains"]
        for column in chain.columns.values()
        for step in column
    ]
    yield from _both("steps", steps, points)
    for figure in first["more"]:
        yield from _both(figure.id, figure.table, figure.rows)


def stem(data: Dataset, experiment: str) -> str:
    """The name of an experiment's files, less its ending: ladder-h200; ladder-h200-here for fresh rows."""
    return f"{experiment}-{results.gpu_slug(data.gpu)}{'' if data.recorded else '-here'}"


def experiments(data: Dataset) -> Iterator[tuple[str, str]]:
    """(path in the site, text) for each experiment: the timings of this checkout's kernels and of libraries."""
    for name, rows in grouped(_timed(data), lambda row: str(row["experiment"])).items():
        lines = [
            {
                **_about(row),
                "mode": row["mode"],
                "tflops": reading.tflops(row),
                "median_ms": reading.median_ms(row),
                "samples": len(row["samples_ms"]),
            }
            for row in rows
        ]
        yield from _both(stem(data, name), lines, rows)


def stem_of(data: Dataset, experiment: str) -> str:
    """The stem of the files that `experiments` writes of this one, empty where it writes none."""
    return stem(data, experiment) if any(row["experiment"] == experiment for row in _timed(data)) else ""


def _timed(data: Dataset) -> list[Row]:
    return [row for row in data.newest if row["kind"] == "timing" and reading.counts(row, data.hashes)]


def table(lines: Iterable[Mapping[str, Any]]) -> str:
    """CSV, four digits to a number; empty where there are no lines."""
    found = pd.DataFrame(lines)
    return "" if found.empty else found.to_csv(index=False, float_format="%.4g", lineterminator="\n")


def _both(name: str, lines: Iterable[Mapping[str, Any]], rows: Iterable[Row | None]) -> Iterator[tuple[str, str]]:
    yield f"data/{name}.csv", table(lines)
    known = {json.dumps(row, sort_keys=True): None for row in rows if row}
    yield f"data/{name}.jsonl", "".join(f"{line}\n" for line in known)


def _about(row: Row | None) -> dict[str, Any]:
    if not row:
        return {}
    return {
        "technique": row.get("technique"),
        "backend": row["backend"],
        "problem": reading.slug(row),
        "tile": tile_slug(row),
        "mma": row.get("mma"),
        "group": row.get("group"),
        "environment": row.get("environment"),
    }
