"""How tiles fill the GPU: a section of the page of the grid."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from reports.data.dataset import Dataset
from reports.data.names import LABELS
from reports.draw import filling as drawing
from reports.facts import filling

EVEN = 0.99
"""Blocks that work at least this share of the time are as good as always at work."""
NEAR = 0.02
"""A speed that differs by no more was predicted."""


def section(data: Dataset) -> dict[str, Any] | None:
    """None if CUDA has too few problems in every head dimension."""
    found = [filling.found(data, series) for series in filling.SERIES]
    if not found[0]:
        return None
    found = [of for of in found if of]
    head_dim = min((one.head_dim for one in found[0]), key=lambda dim: abs(dim - 128))
    rates = [(LABELS[one.series], one.rate) for of in found for one in of if one.head_dim == head_dim]
    uneven = min((line for one in found[0] for line in one.cells), key=lambda line: line.even)
    return {
        "languages": found,
        "title": f"Within a tile of head_dim {head_dim}, of the tensor cores’ peak: "
        + ", ".join(f"{label} {100 * rate:.0f}%" for label, rate in rates),
        "near": NEAR,
        "uneven": uneven if uneven.even < EVEN else None,
        "drawings": [
            Markup(drawing.panel([one for of in found for one in of if one.head_dim == each.head_dim]))
            for each in found[0]
        ],
    }
