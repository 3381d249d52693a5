"""How long one cell took each time it was recorded. Change-point tools read the CSV."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness import operators
from harness.rows import stats, summary

if TYPE_CHECKING:
    from pandas import DataFrame

COLUMNS = ("time", "commit", "board", "source", "ms", "tflops", "anchor_ms", "ratio")
"""Of `points`. `ratio` is ms / anchor_ms, missing where the group has no anchor."""


def points(timing: DataFrame, words: Sequence[str], mode: str = "burst") -> dict[str, DataFrame]:
    """Cell -> its measurements, oldest first, for each cell that has all of these words in its name. If none has, a
    part of a problem or tile, such as d128 or b4-h16, stands for it."""
    table = stats.measured(timing)
    anchors = table[table.backend.isin(operators.anchors())].drop_duplicates("group_id").set_index("group_id").ms
    table = table[table["mode"] == mode]
    parts = table[["backend", "name", "problem", "tile"]].fillna("").astype(str)
    cell = parts.backend.str.cat(parts.iloc[:, 1:], sep=" ").str.split().str.join(" ")
    asked = {name for name in cell.unique() if set(words) <= set(name.split())}
    asked = asked or {name for name in cell.unique() if all(_holds(name, word) for word in words)}
    table = table.assign(
        cell=cell,
        commit=table.commit.str[:7],
        source=table.source_sha256.str[:12],
        tflops=table.speed,
        anchor_ms=table.group_id.map(anchors),
    ).sort_values(["cell", "time"])
    table = table.assign(ratio=table.ms / table.anchor_ms)[table.cell.isin(asked)]
    found = table.drop_duplicates(["cell", "time", "group_id"]).groupby("cell")
    return {str(name): some[list(COLUMNS)].reset_index(drop=True) for name, some in found}


def cells(root: Path, gpu: str, experiment: str, operator: str = "*") -> list[set[str]]:
    """The words of each recorded cell, without reading the rows."""
    found = []
    for path in root.glob(f"{gpu}/{operator}/{experiment}/{summary.NAME}"):
        with path.open() as text:
            found += [set(line["cell"].split()) for line in csv.DictReader(text)]
    return found


def _holds(name: str, word: str) -> bool:
    return any(f"-{word}-" in f"-{each}-" for each in name.split())
