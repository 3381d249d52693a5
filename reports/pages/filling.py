"""How tiles fill the GPU: a section of the page of the grid."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from markupsafe import Markup

from reports.data.dataset import Dataset
from reports.draw import filling as drawing
from reports.facts import filling, headlines

EVEN = 0.99
"""Of the time that the blocks work, so much or more is as good as all."""


def section(data: Dataset) -> dict[str, Any] | None:
    """None where no head dimension has problems enough."""
    found = filling.found(data)
    if not found:
        return None
    lines = [line for one in found for line in one.cells]
    uneven = min(lines, key=lambda line: line.even)
    return {
        "of": found,
        "count": len(lines),
        "title": headlines.filling_title(found),
        "rates": _each((one.head_dim, f"{100 * one.rate:.0f}%") for one in found),
        "beyond": _each((one.head_dim, f"{one.beyond:,}") for one in found),
        "uneven": uneven if uneven.even < EVEN else None,
        "drawings": [Markup(drawing.panel(one)) for one in found],
    }


def _each(values: Iterable[tuple[int, str]]) -> str:
    """66% at head_dim 64, 98% at 128 and 100% at 256"""
    first, *others = [
        f"{value} at {'head_dim ' if place == 0 else ''}{dim}" for place, (dim, value) in enumerate(values)
    ]
    return f"{', '.join([first, *others[:-1]])} and {others[-1]}" if others else first
