"""What machines and software the rows of a page are from: runs that differ in the card alone are told together."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from harness.rows import reading
from reports.data.dataset import Row, grouped

OF_A_RUN = {
    "": ("argv", "git"),
    "gpu": ("uuid_sha256", "utilization", "other_processes"),
    "variables": ("CUDA_VISIBLE_DEVICES",),
}
"""What differs between the runs of one machine: in the description itself, and in its groups."""


@dataclass(frozen=True)
class Machine:
    """Runs on one kind of card with one set of software. `cards`: how many of them there were."""

    gpu: str
    cards: int
    days: list[str]
    runs: list[Row]
    details: dict[str, Any]


def machines(environments: Iterable[Row]) -> list[Machine]:
    """`environments` in the order of time, by what they have in common."""
    found = []
    for runs in grouped(environments, lambda row: json.dumps(_common(row), sort_keys=True)).values():
        cards = {reading.board(row.get("details") or {}) for row in runs}
        days = list(dict.fromkeys(row["time"][:10] for row in runs))
        found.append(Machine(reading.gpu_name(runs[0]), len(cards), days, runs, _common(runs[0])))
    return found


def _common(environment: Row) -> dict[str, Any]:
    """The description without what belongs to one run."""
    return {
        name: _without(value, OF_A_RUN.get(name, ())) if isinstance(value, Mapping) else value
        for name, value in _without(environment.get("details") or {}, OF_A_RUN[""]).items()
    }


def _without(items: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: item for name, item in items.items() if name not in names}
