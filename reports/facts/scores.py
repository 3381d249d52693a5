"""The scorecard's entries as pages show them, and how their cells moved over recorded runs: speeds over the anchor of
their own group, run by run, and what `compare` says of the last two runs."""

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.catalog.promises import FASTEST
from harness.operators.protocol import Problem
from harness.rows import compare, reading, stats
from harness.rows.reading import tile_slug
from reports.data.dataset import Dataset, Row, grouped
from reports.data.names import score_title

REACHED, UNSETTLED, MISSED = "reached", "not settled", "missed"
Cell = tuple[str, str]
"""A case as rows.reading.cell names it, and its mode of timing."""


@dataclass(frozen=True)
class Moment:
    """One run. `value`: speed over the anchor's; `source`: hash of the kernel's source; `current`: today's source."""

    rows: Sequence[Row]
    time: str
    value: float
    source: str
    current: bool


@dataclass(frozen=True)
class Line:
    """One kernel on one problem at one tile, oldest run first. `verdict`: of its last two runs, if it has two."""

    technique: str
    backend: str
    problem: Problem
    tile: str
    moments: list[Moment]
    verdict: compare.Verdict | None

    @property
    def change(self) -> float | None:
        return self.moments[-1].value / self.moments[-2].value if self.verdict else None

    @property
    def edited(self) -> bool:
        """Whether the newest run and the one before it measured two versions of the kernel."""
        return bool(self.verdict) and self.moments[-1].source != self.moments[-2].source


def sections(data: Dataset) -> dict[str, list[Line]]:
    """Title -> the kernels of each entry of the scorecard. Entries of the same cells are one section."""
    timed = _timings(data)
    entries: dict[tuple[Cell, ...], list[str]] = {}
    modes = {promise.name: promise.mode for promise in data.operator.promises()}
    for entry in data.scores:
        mode = modes.get(entry["name"], "burst")
        cells = tuple((cell["case"], mode) for cell in entry["cells"] if "case" in cell)
        entries.setdefault(cells, []).append(score_title(entry["name"]))
    wanted = dict.fromkeys(cell for cells in entries for cell in cells if cell in timed)
    runs = {cell: each for cell in wanted if (each := _runs(data, timed[cell]))}
    judged = _judged(data, {cell: found for cell, found in runs.items() if len(found) > 1})
    lines = {cell: _line(data, found, judged.get(cell)) for cell, found in runs.items()}
    found = {"; ".join(titles): [lines[cell] for cell in cells if cell in lines] for cells, titles in entries.items()}
    return {title: section for title, section in found.items() if section}


def _timings(data: Dataset) -> dict[Cell, list[Row]]:
    """Every timing that passed, of any version and experiment, the oldest first."""
    timed = (row for row in data.rows if (row.kind, row.status, row.assembler) == ("timing", "passed", "own"))
    rows = sorted((row for row in timed if row.samples_ms and row.technique), key=lambda row: str(row.time))
    return grouped(rows, lambda row: (reading.cell(row), row.mode))


def _judged(data: Dataset, runs: Mapping[Cell, Sequence[Sequence[Row]]]) -> dict[Cell, compare.Verdict]:
    """What compare says of the last two runs of each cell."""
    if not runs:
        return {}
    timing = data.table("timing")
    around = stats.measured(timing)
    keys = list(zip(around.environment, around["group"], around.case, around["mode"], strict=True))

    def side(number: int) -> Any:
        rows = ((row, cell) for cell, found in runs.items() for row in found[number])
        cells = {(row.environment, row.group, reading.case(row), row.mode): cell for row, cell in rows}
        return around.assign(case_id=[cells.get(key) for key in keys]).dropna(subset="case_id")

    found = compare.judge(side(-2), side(-1), around, compare.Noise(timing if data.recorded else timing[:0]))
    return {cell: replace(found[cell], case=cell[0]) for cell in runs if cell in found}


def _line(data: Dataset, runs: Sequence[Sequence[Row]], verdict: compare.Verdict | None) -> Line:
    newest = runs[-1][-1]
    moments = []
    for rows in runs:
        values = [math.log(value) for row in rows if (value := data.over_anchor(row))]
        source, is_current = str(rows[-1]["source_sha256"]), bool(rows[-1].current)
        moments.append(Moment(rows, str(rows[-1]["time"]), math.exp(statistics.fmean(values)), source, is_current))
    return Line(newest["technique"], newest["backend"], reading.problem_of(newest), tile_slug(newest), moments, verdict)


def _runs(data: Dataset, rows: Iterable[Row]) -> list[list[Row]]:
    """The timings of one cell that have an anchor, run by run; a run may have several processes, of one program."""
    anchored = [row for row in rows if data.over_anchor(row)]
    found = grouped(anchored, lambda row: str(row.group).rpartition("-")[0]).values()
    return [[row for row in run if row["source_sha256"] == run[-1]["source_sha256"]] for run in found]


def between_boards(data: Dataset) -> float | None:
    """By how much a ratio moves from board to board although nothing changed; None where that is not known."""
    found = stats.limits(stats.pairs(data.table("timing")), one_board=False)
    return found.ratio if found else None


def scored(data: Dataset) -> list[dict[str, Any]]:
    """The scorecard's entries, each with the worst cell's value and the rungs that only an earlier version keeps out.
    Where an entry is a race with the fastest library, it has a `tally` and each of its cells a `verdict`."""
    races = {promise.name for promise in data.operator.promises() if promise.theirs == FASTEST}
    found = []
    for entry in data.scores:
        values = [cell["value"] for cell in entry["cells"] if "value" in cell]
        entry = {
            **entry,
            "worst_value": min(values, default=None),
            "earlier": earlier(data, entry["experiment"], entry["ours"]),
        }
        if entry["name"] in races:
            cells = [cell | {"verdict": verdict(cell)} if "value" in cell else cell for cell in entry["cells"]]
            entry |= {"cells": cells, "tally": tally(cells)}
        found.append(entry)
    return found


def verdict(cell: Mapping[str, Any]) -> str:
    """Whether a ratio is above 1 for certain. Without an interval, or where it holds 1, nobody knows."""
    interval = cell["interval"] or {}
    low, high = interval.get("low"), interval.get("high")
    if low is None or high is None or low <= 1 <= high:
        return UNSETTLED
    return REACHED if low > 1 else MISSED


def tally(cells: Sequence[Mapping[str, Any]]) -> str:
    """The fastest library is reached on 6 of 12 problems; 6 are not settled."""
    if not any("verdict" in cell for cell in cells):
        return "No problem has a number."
    counts = Counter(cell.get("verdict", "without a number") for cell in cells)
    reached = counts.pop(REACHED, 0)
    on = f"all {len(cells)}" if reached == len(cells) else f"{reached or 'none'} of {len(cells)}"
    rest = [f"; {count} {'is' if count == 1 else 'are'} {word}" for word, count in sorted(counts.items())]
    return f"The fastest library is reached on {on} problems{''.join(rest)}."


def earlier(data: Dataset, experiment: str, backend: str) -> list[str]:
    """The rungs that an experiment timed in earlier versions only."""
    timed = [row for row in data.timings(experiment) if row.technique and row.backend == backend]
    current = {row.technique for row in timed if row.current}
    named = {row.technique for row in timed} - current
    return [technique.name for technique in data.operator.techniques if technique.name in named]
