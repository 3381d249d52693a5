"""The page of what a multiprocessor does in a clock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from harness.catalog.roofs import MATMUL_SIZE, PEAK
from reports.data import machines
from reports.data.dataset import Dataset
from reports.data.questions import question
from reports.draw import roofs as drawing
from reports.facts import roofs

PATH = f"experiment/{roofs.EXPERIMENT}.html"


def page(datasets: Sequence[Dataset]) -> dict[str, Any]:
    """`datasets`: in the order in which they are asked for roofs."""
    found = roofs.found(datasets)
    limits = {head_dim: found.limits(head_dim) for head_dim in roofs.HEAD_DIMS}
    rows = [line.row for line in found.lines if line.row]
    return {
        "question": question(roofs.EXPERIMENT),
        "name": roofs.EXPERIMENT,
        "lines": found.lines if rows else [],
        "is_measured": any(line.passed for line in found.lines),
        "where": found.data.provenance(rows) if found.data else "",
        "earlier": [line.roof.name for line in found.lines if line.passed and not line.is_current],
        "limits": limits,
        "giving_way": found.giving_way(),
        "drawings": [Markup(drawing.limits(head_dim, one)) for head_dim, one in limits.items() if one],
        "peak": PEAK,
        "size": MATMUL_SIZE,
        "machines": machines.machines(found.data.environments_of(rows)) if found.data else [],
    }
