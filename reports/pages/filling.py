"""How tiles fill the GPU: a section of the page of the grid."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from markupsafe import Markup

from reports.data.dataset import Dataset
from reports.data.names import LABELS
from reports.draw import filling as drawing
from reports.facts import filling, headlines
from reports.facts.filling import HeadDim

EVEN = 0.99
"""Of the time that the blocks work, so much or more is as good as all."""


def section(data: Dataset) -> dict[str, Any] | None:
    """None where CUDA has problems enough in no head dimension."""
    ours, *others = [filling.found(data, series) for series in filling.SERIES]
    if not ours:
        return None
    lines = [line for one in ours for line in one.cells]
    uneven = min(lines, key=lambda line: line.even)
    told = [ours, *filter(None, others)]
    return {
        "of": told,
        "title": headlines.filling_title(ours),
        "numbers": _numbers(ours),
        "others": [
            {"label": LABELS[of[0].series], "numbers": _numbers(of), "in_the_loop": filling.is_in_the_loop(ours, of)}
            for of in told[1:]
        ],
        "uneven": uneven if uneven.even < EVEN else None,
        "drawings": [
            Markup(drawing.panel([one for of in told for one in of if one.head_dim == head_dim]))
            for head_dim in (one.head_dim for one in ours)
        ],
    }


def _numbers(found: Sequence[HeadDim]) -> dict[str, str]:
    return {
        "rates": _each((one.head_dim, f"{100 * one.rate:.0f}%") for one in found),
        "beyond": _each((one.head_dim, f"{one.beyond:,}") for one in found),
    }


def _each(values: Iterable[tuple[int, str]]) -> str:
    """66% at head_dim 64, 98% at 128 and 100% at 256"""
    first, *others = [
        f"{value} at {'head_dim ' if place == 0 else ''}{dim}" for place, (dim, value) in enumerate(values)
    ]
    return f"{', '.join([first, *others[:-1]])} and {others[-1]}" if others else first
