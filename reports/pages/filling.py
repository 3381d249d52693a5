"""How tiles fill the GPU: a section of the page of the grid."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from reports.data.dataset import Dataset
from reports.data.names import LABELS
from reports.draw import filling as drawing
from reports.facts import filling, headlines

EVEN = 0.99
"""Blocks that work at least this share of the time are as good as always at work."""


def section(data: Dataset) -> dict[str, Any] | None:
    """None where CUDA has problems enough in no head dimension."""
    ours, *others = [filling.found(data, series) for series in filling.SERIES]
    if not ours:
        return None
    told = [ours, *filter(None, others)]
    uneven = min((line for one in ours for line in one.cells), key=lambda line: line.even)
    behind = [LABELS[of[0].series] for of in told[1:] if filling.is_in_the_loop(ours, of)]
    return {
        "languages": told,
        "title": headlines.filling_title(told),
        "near": headlines.NEAR,
        "uneven": uneven if uneven.even < EVEN else None,
        "behind": " and ".join(behind),
        "drawings": [
            Markup(drawing.panel([one for of in told for one in of if one.head_dim == head_dim]))
            for head_dim in (one.head_dim for one in ours)
        ],
    }
