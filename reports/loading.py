"""Rows from files -> datasets: what this repository records, and what was computed here and is not recorded."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from harness import results, scorecard
from harness.scorecard import Hashes
from reports.dataset import Dataset, Row


def load(recorded: Path, fresh: Iterable[Path], hashes: Hashes) -> list[Dataset]:
    """One dataset per recorded GPU and one per GPU (or CPU) that the fresh runs ran on; the one
    with most timings that count comes first, of equals the fresh one. A fresh row that has been recorded since, or
    that a recorded one replaced, is left out."""
    rows: dict[tuple[str, bool], list[dict[str, Any]]] = {}
    replaced: dict[tuple[str, str], str] = {}
    for gpu, path in results.iter_recorded(recorded):
        found = results.read(path)
        rows.setdefault((gpu, True), []).extend(found)
        name = _gpu_of(found)
        for row in found:
            key = (name, results.key(row))
            replaced[key] = max(row["time"], replaced.get(key, ""))
    for path in fresh:
        found = results.read(path)
        gpu = _gpu_of(found)
        new = [
            row
            for row in found
            if row["kind"] != "environment" and row["time"] > replaced.get((gpu, results.key(row)), "")
        ]
        if new:
            rows.setdefault((gpu, False), []).extend([row for row in found if row["kind"] == "environment"] + new)
    datasets = []
    for (gpu, is_recorded), found in rows.items():
        names = [scorecard.gpu_name(row) for row in found if row["kind"] == "environment"]
        datasets.append(Dataset(names[0] if names else gpu, is_recorded, found, hashes))

    def richness(data: Dataset) -> tuple[int, bool]:
        return sum(scorecard.counts(row, hashes) for row in data.timings()), not data.recorded

    return sorted(datasets, key=richness, reverse=True)


def _gpu_of(rows: Iterable[Row]) -> str:
    return next((scorecard.gpu_name(row) for row in rows if row["kind"] == "environment"), "unknown")
