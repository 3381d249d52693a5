"""The scorecard's entries as pages show them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from harness.catalog import techniques
from harness.catalog.promises import FASTEST
from harness.catalog.techniques import TECHNIQUES
from harness.operators.attention.problem import Problem
from harness.operators.attention.promises import promises
from harness.rows import reading
from reports.data.dataset import Dataset, Row
from reports.facts import roofs

GRID = "flagship_over_fastest"
"""The entry whose cells stand beside roofs."""
RACES = {promise.name for promise in promises() if promise.theirs == FASTEST}
"""The entries that say of each cell whether ours reached the fastest library."""
REACHED, UNSETTLED, MISSED = "reached", "not settled", "missed"


def scored(data: Dataset, experiment: str | None = None) -> list[dict[str, Any]]:
    """The scorecard's entries, of one experiment or of all, each with the worst cell's value, the rungs that only an
    earlier version keeps out, and on how many problems a kernel failed another gate. Entries of RACES have a `tally`
    and each of their cells a `verdict`; for GRID see beside_roofs."""
    found = []
    for entry in data.scores:
        if experiment in (None, entry["experiment"]):
            values = [cell["value"] for cell in entry["cells"] if "value" in cell]
            entry = {
                **entry,
                "worst_value": min(values, default=None),
                "earlier": earlier(data, entry["experiment"], entry["ours"]),
            }
            if entry["name"] == GRID:
                entry |= beside_roofs(data, entry)
            if entry["name"] in RACES:
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
    counts = Counter(cell.get("verdict", "without a number") for cell in cells)
    reached = counts.pop(REACHED, 0)
    on = f"all {len(cells)}" if reached == len(cells) else f"{reached or 'none'} of {len(cells)}"
    rest = [f"; {count} {'is' if count == 1 else 'are'} {word}" for word, count in sorted(counts.items())]
    return f"The fastest library is reached on {on} problems{''.join(rest)}."


def beside_roofs(data: Dataset, entry: Mapping[str, Any]) -> dict[str, Any]:
    """The cells of an entry, each with the TFLOPS of `products` alone at the kernel's own clock, a limit; None where
    the clock was not read. `borrowed`: head_dim -> that of the roof in its place, where its own was not measured.
    Nothing where no roof was measured."""
    lines = [line for line in roofs.found([data]).lines if line.flop and line.roof.name.startswith("products_")]
    limits = {line.roof.size or 0: line.flop for line in lines}
    if not limits:
        return {}
    timed = [row for row in data.rows if (row.kind, row.experiment) == ("timing", entry["experiment"])]
    borrowed: dict[int, int] = {}
    cells = []
    for cell in entry["cells"]:
        head_dim = Problem.parse(cell["problem"]).head_dim
        if head_dim not in limits:
            borrowed[head_dim] = max(limits)
        flop = limits.get(head_dim, limits[max(limits)])
        row = next((row for row in timed if _is_of(cell, row)), None)
        cells.append({**cell, "products": at_clock_of(row, flop)})
    return {"cells": cells, "borrowed": borrowed}


def _is_of(cell: Mapping[str, Any], row: Row) -> bool:
    """Whether a cell's TFLOPS of ours are this row's."""
    return (
        row.environment == cell.get("run")
        and bool(row.samples_ms)
        and row.speed == cell["ours"]
        and reading.cell(row) == cell["case"]
    )


def at_clock_of(row: Row | None, flop: float | None) -> float | None:
    """TFLOPS of so many FLOP a clock and multiprocessor at the clock of a timing; None where that was not read."""
    return flop * row.clock_ghz * row.sm_count / 1e3 if row and row.clock_ghz and flop else None


def earlier_cells(data: Dataset, experiment: str) -> list[tuple[str, str]]:
    """(backend, technique) of what an experiment timed in earlier versions only, with the problems where that is so on
    some; of every version of a language."""
    found = []
    for (backend, name), problems in sorted(_timed(data, experiment).items()):
        left = sorted(slug for slug, is_current in problems.items() if not is_current)
        if left:
            found.append((backend, name if len(left) == len(problems) else f"{name} ({', '.join(left)})"))
    return found


def earlier(data: Dataset, experiment: str, backend: str) -> list[str]:
    """The rungs that an experiment timed in earlier versions only."""
    timed = _timed(data, experiment)
    by_rung = {rung.name: timed.get((backend, rung.name), {}) for rung in TECHNIQUES}
    return [name for name, problems in by_rung.items() if problems and not any(problems.values())]


def _timed(data: Dataset, experiment: str) -> dict[tuple[str, str], dict[str, bool]]:
    """(backend, technique) -> problem -> whether an experiment timed this version of the kernel there."""
    found: dict[tuple[str, str], dict[str, bool]] = {}
    for row in data.timings(experiment):
        if row.technique and techniques.find(row.technique):
            problems = found.setdefault((row.backend, row.technique), {})
            slug = row.problem
            problems[slug] = problems.get(slug, False) or row.current
    return found
