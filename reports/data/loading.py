"""Rows from files -> datasets: what this repository records, and what was computed here and is not recorded."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from harness.operators.attention import tiles
from harness.rows import reading, results, schema
from harness.rows.reading import Hashes
from reports.data.dataset import Dataset, Row


def load(recorded: Path, fresh: Iterable[Path], hashes: Hashes, tables: Path = tiles.FOLDER) -> list[Dataset]:
    """One dataset per recorded GPU and one per GPU (or CPU) that the fresh runs ran on; the one
    with most timings that count comes first, of equals the fresh one. A fresh row that has been recorded since, or
    that a recorded one replaced, is left out, and so are probes, which are of no machine. `tables`: the folder of the
    tiles chosen for each GPU."""
    rows: dict[tuple[str, bool], list[dict[str, Any]]] = {}
    replaced: dict[tuple[str, str], str] = {}
    runs = {path: results.read(path, schema.check) for path in fresh}
    about = {(row["kind"], row.get("technique")) for found in runs.values() for row in found}
    for gpu, path in results.iter_recorded(recorded):
        found = results.read(path)
        rows.setdefault((gpu, True), []).extend(found)
        name = _gpu_of(found)
        for row in found:
            if (row["kind"], row.get("technique")) in about:
                key = (name, results.key(row))
                replaced[key] = max(row["time"], replaced.get(key, ""))
    for found in runs.values():
        gpu = _gpu_of(found)
        new = [
            row
            for row in found
            if row["kind"] not in ("environment", "probe") and row["time"] > replaced.get((gpu, results.key(row)), "")
        ]
        if new:
            rows.setdefault((gpu, False), []).extend([row for row in found if row["kind"] == "environment"] + new)
    datasets = []
    for (gpu, is_recorded), found in rows.items():
        name = _gpu_of(found, gpu)
        table = {(one.technique, one.backend, one.cell): one for one in _selections(tables, name)}
        chosen, tried = ({key: getattr(one, what) for key, one in table.items()} for what in ("tile", "tried"))
        datasets.append(Dataset(name, is_recorded, found, hashes, chosen, tried))

    def richness(data: Dataset) -> tuple[int, bool]:
        return sum(reading.counts(row, hashes) for row in data.timings()), not data.recorded

    return sorted(datasets, key=richness, reverse=True)


def recorded_hashes(recorded: Path) -> dict[tuple[str, str], str]:
    """Of the newest version of each kernel that was timed: with them, editing a kernel leaves recorded rows as they
    count."""
    rows = [row for _, path in results.iter_recorded(recorded) for row in results.read(path)]
    timed = sorted((row for row in rows if row["kind"] == "timing"), key=lambda row: row["time"])
    return {(row["technique"], row["backend"]): row["source_sha256"] for row in timed if row.get("technique")}


def of_compilers(recorded: Path, fresh: Iterable[Path]) -> tuple[list[Row], list[Row]]:
    """Rows of kind probe, and of kind code, about compilers alone: those that are recorded, and those of fresh runs.
    Code by another assembler than the language's own is left out."""
    files = [*results.recorded(recorded, results.COMPILERS), *fresh]
    rows: list[Row] = [row for path in files for row in results.read(path, schema.check)]
    code = [row for row in rows if row["kind"] == "code" and reading.is_as_shipped(row)]
    return [row for row in rows if row["kind"] == "probe"], code


def _selections(tables: Path, gpu: str) -> list[tiles.Selection]:
    table = tables / f"{results.gpu_slug(gpu)}.toml"
    return tiles.read(table) if table.is_file() else []


def _gpu_of(rows: Iterable[Row], unknown: str = "unknown") -> str:
    return next((reading.gpu_name(row) for row in rows if row["kind"] == "environment"), unknown)
