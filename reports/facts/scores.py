"""The scorecard's entries as pages show them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from harness.catalog.promises import FASTEST
from reports.data.dataset import Dataset

REACHED, UNSETTLED, MISSED = "reached", "not settled", "missed"


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
