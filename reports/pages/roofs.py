"""The page of what a multiprocessor does in a clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from harness.catalog.roofs import MATMUL_SIZE, PEAK
from reports.data.dataset import Dataset
from reports.data.questions import question
from reports.draw import roofs as drawing
from reports.facts import roofs
from reports.pages import downloads

PATH = f"experiment/{roofs.EXPERIMENT}.html"
NAME = "roofs"
"""Of the page's files."""


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
        "share": found.share,
        "drawings": [Markup(drawing.limits(head_dim, one)) for head_dim, one in limits.items() if one],
        "files": [download(found, limits)] if rows else [],
        "peak": PEAK,
        "size": MATMUL_SIZE,
        "machines": found.data.environments_of(rows) if found.data else [],
    }


def download(found: roofs.Found, limits: Mapping[int, Sequence[roofs.Limit]]) -> downloads.Download:
    """The bars of every head dimension, then every roof, with the roofs' rows."""
    bars = [
        {"head_dim": head_dim, "what": one.label, "flop_per_clock": one.flop, "is_measured": one.measured}
        for head_dim, several in limits.items()
        for one in several
    ]
    lines = [
        {
            "head_dim": line.roof.size,
            "what": line.roof.name,
            "flop_per_clock": line.flop,
            "is_measured": line.passed,
            "clock_ghz": line.median("clock_ghz"),
            "tflops": line.median("tflops"),
        }
        for line in found.lines
    ]
    return downloads.Download(NAME, [*bars, *lines], [line.row for line in found.lines])
