"""The scorecard's entries as pages show them."""

from __future__ import annotations

import math
from typing import Any

from harness.catalog.techniques import TECHNIQUES
from harness.rows import reading
from reports.data.dataset import Dataset


def scored(data: Dataset, experiment: str | None = None) -> list[dict[str, Any]]:
    """The scorecard's entries, of one experiment or of all, with the worst cell's value and what an earlier version
    keeps out."""
    return [
        {
            **entry,
            "worst_value": min((cell.get("value", math.inf) for cell in entry["cells"]), default=None),
            "earlier": earlier(data, entry["experiment"], entry["ours"]),
        }
        for entry in data.scores
        if experiment in (None, entry["experiment"])
    ]


def earlier(data: Dataset, experiment: str, backend: str) -> list[str]:
    """The rungs of which an experiment timed no version but an earlier one."""
    timed = [row for row in data.timings(experiment) if row["backend"] == backend and row.get("technique")]
    current = {row["technique"] for row in timed if reading.is_current(row, data.hashes)}
    return [rung.name for rung in TECHNIQUES if rung.name in {row["technique"] for row in timed} - current]
