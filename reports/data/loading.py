"""Rows from files -> datasets: what this repository records, and what was computed here and is not recorded."""

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas

from harness import operators
from harness.catalog import techniques, tiles
from harness.rows import frame, lock, results
from harness.rows.reading import Hashes
from reports.data.dataset import CELL, KINDS, Dataset, Row, about, grouped, lines, made_of

NO_GPU = "a CPU"


def load(
    recorded: Path,
    fresh: Iterable[Path],
    hashes: Hashes | None = None,
    tables: Path | None = None,
    operator: str = operators.FIRST,
) -> list[Dataset]:
    """The rows of an operator: one dataset per recorded GPU and one per GPU (or CPU) that fresh runs ran on; the one
    whose ladders count most comes first, of equals the fresh one. A fresh row that was recorded since, or replaced
    by a recorded one, is left out. `tables`: the folder of the tiles chosen for each GPU, by default the operator's."""
    tables = tables or tiles.folder(operator)
    every = {kind: frame.frame(kind, root=recorded, runs=tuple(fresh), operator=operator) for kind in KINDS}
    origins = {origin for kind in KINDS[1:] for origin in zip(every[kind].gpu, every[kind].recorded, strict=True)}
    datasets = []
    for gpu, is_recorded in sorted(origins):
        if is_recorded and gpu == NO_GPU:
            continue  # of compilers alone
        of_gpu = {kind: every[kind][every[kind].gpu == gpu] for kind in KINDS[1:]}
        here = {kind: found[found.recorded == is_recorded] for kind, found in of_gpu.items()}
        if not is_recorded:
            here |= {kind: _newer(here[kind], of_gpu[kind][of_gpu[kind].recorded]) for kind in KINDS[1:]}
        used = {name for found in here.values() for name in found.environment}
        here["environment"] = every["environment"][every["environment"].id.isin(used)]
        if used:
            chosen = _chosen(tables, operator, gpu, here["timing"])
            picked = {key: one.tile for key, one in chosen.items()}
            tried = {key: one.tried for key, one in chosen.items()}
            own = {**hashes, **hashes.on.get(gpu, {})} if isinstance(hashes, RecordedHashes) else hashes
            datasets.append(Dataset(gpu, is_recorded, here, own, picked, tried, operators.get(operator)))
    return sorted(datasets, key=_richness, reverse=True)


def _richness(data: Dataset) -> tuple[int, int, bool]:
    """Cells of ladders that count in two languages, which the first pages compare; then all timings that count."""
    ladders = {ladder.experiment for ladder in data.operator.ladders}
    rows = [row for ladder in ladders for row in data.counting(ladder, data.operator.techniques)]
    cells = grouped(rows, lambda row: (row.technique, row.problem)).values()
    both = sum({"cuda"} < {row.backend for row in some} for some in cells)
    return both, sum(bool(row.usable) for row in data.timings()), not data.recorded


def _chosen(
    place: Path, operator: str, gpu: str, timing: pandas.DataFrame
) -> dict[tuple[str, str, str], tiles.Selection]:
    """(technique, backend, cell) -> the tile selected for a GPU. Where its own table has none for a problem that was
    timed, the next table that serves it has, as in tiles.best_tile."""
    found: dict[tuple[str, str, str], tiles.Selection] = {}
    problems = [operators.get(operator).problem.parse(slug) for slug in set(timing.problem.dropna())]
    slug = results.gpu_slug(gpu)
    for path in tiles.tables(operator, slug, place):
        table = tiles.by_cell(path)
        if path.stem == slug:
            found |= table
            continue
        kernels = {(technique, backend) for technique, backend, _ in table}
        missing = {
            (*kernel, problem.cells[0]): one
            for kernel in kernels
            for problem in problems
            if not tiles.pick(found, *kernel, problem) and (one := tiles.pick(table, *kernel, problem))
        }
        found |= missing
    return found


def _newer(fresh: pandas.DataFrame, recorded: pandas.DataFrame) -> pandas.DataFrame:
    """The fresh rows that no recorded one of the same measurement is as new as."""
    if fresh.empty or recorded.empty:
        return fresh
    cell = [name for name in (*CELL, "assembler", "purpose", "of") if name in fresh]
    latest = recorded.groupby(cell, dropna=False).time.max().rename("last").reset_index()
    last = fresh[cell].merge(latest, on=cell, how="left")["last"].to_numpy()
    return fresh[[not isinstance(seen, str) or time > seen for time, seen in zip(fresh.time, last, strict=True)]]


class RecordedHashes(dict[tuple[str, str], str]):
    """Of the newest version of each kernel that was recorded."""

    on: dict[str, dict[tuple[str, str], str]]
    """GPU -> the same, of the newest that was recorded on it, where that is another program."""


def recorded_hashes(recorded: Path) -> RecordedHashes:
    """Of the newest version of each kernel that was timed, or else checked: with them, editing a kernel leaves recorded
    rows as they count, and recording it on one GPU those of another."""
    found = RecordedHashes()
    found.on = defaultdict(dict)
    tables: list[tuple[str, tuple[str, str], str, dict[str, Any]]] = []
    for kind in ("gate", "timing"):
        table = frame.frame(kind, root=recorded)
        about = table.technique.notna() & ((kind == "gate") | (table.get("purpose") == "timing"))
        rows = table[about].sort_values("time", kind="stable")
        names = map(techniques.qualified, rows.technique, rows.operator)
        tables += zip(rows.gpu, zip(names, rows.backend, strict=True), rows.tile, made_of(rows), strict=True)
    for gpu, kernel, _, row in tables:
        found[kernel] = found.on[gpu][kernel] = row["source_sha256"]
    for gpu, kernel, tile, row in tables:
        if found.on[gpu][kernel] == row["source_sha256"] and lock.vouches(row, kernel, found[kernel], tile):
            found.on[gpu][kernel] = found[kernel]
    return found


def of_compilers(recorded: Path, fresh: Iterable[Path], hashes: Hashes | None = None) -> list[Row]:
    """Machine code, recorded or fresh, that compilers made without a GPU and by their language's own assembler."""
    code = frame.frame("code", root=recorded, runs=tuple(fresh))
    alone = code[(code.of == "code") & (code.assembler == "own") & ((code.gpu == NO_GPU) | ~code.recorded)]
    return lines("code", about(alone, hashes))


def proofs(recorded: Path, fresh: Iterable[Path]) -> list[dict[str, Any]]:
    return [row for row in frame.rows("proof", recorded, tuple(fresh)) if row["kind"] == "proof"]
