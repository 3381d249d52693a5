"""Schematic drawings before and after a technique, from the block "```toml drawings" of its note.

    as = "exp_lock"                 the drawings of another technique, or:
    heading = "..."                 where they do not show who works when; text and legend.KIND likewise
    [[drawing]]                     one before the technique, one with it
    title, text = "...", "..."
    lanes.WHO = "load*2 | .*1"      spans as label*width from left to right; "." waits; all lanes are equally long

Nothing in them is measured.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from harness import operators

NOTES = Path(__file__).resolve().parent.parent / "notes" / operators.FIRST
BLOCK = re.compile(r"^```toml drawings\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
HEADING = "Who works when"
TEXT = "From left to right, a drawing and not a measurement"
LEGEND = {"product": "tensor cores", "copy": "copies", "other": "other work", "wait": "waits"}
PRODUCTS = ("Q K", "P V", "products")
COPIES = ("load", "store", "reads")


@dataclass(frozen=True)
class Span:
    """`label` is empty where the lane waits."""

    label: str
    width: int

    @property
    def kind(self) -> str:
        """What it is drawn as, a key of LEGEND."""
        if not self.label:
            return "wait"
        return "product" if self.label.startswith(PRODUCTS) else "copy" if self.label.startswith(COPIES) else "other"


@dataclass(frozen=True)
class Timeline:
    """`lanes`: who -> what it does."""

    title: str
    text: str
    lanes: dict[str, list[Span]]


@dataclass(frozen=True)
class Drawings:
    """`legend`: kind of a span -> what it is, of those that are drawn."""

    heading: str
    text: str
    legend: dict[str, str]
    timelines: list[Timeline]


@cache
def drawings(technique: str) -> Drawings | None:
    """Those of a technique's note; None without any."""
    path = NOTES / f"{technique}.md"
    found = BLOCK.search(path.read_text()) if path.is_file() else None
    if found is None:
        return None
    block: dict[str, Any] = tomllib.loads(found[1])
    if other := block.pop("as", None):
        shown = drawings(other)
        if shown is None:
            raise ValueError(f"{path.name}: as: got {other!r}, expected a technique whose note has drawings")
        timelines = shown.timelines
    else:
        timelines = [
            Timeline(one["title"], one["text"], {who: spans(lane) for who, lane in one["lanes"].items()})
            for one in block.pop("drawing")
        ]
    drawn = {span.kind for one in timelines for lane in one.lanes.values() for span in lane}
    legend = {kind: what for kind, what in {**LEGEND, **block.get("legend", {})}.items() if kind in drawn}
    return Drawings(block.get("heading", HEADING), block.get("text", TEXT), legend, timelines)


def spans(lane: str) -> list[Span]:
    """Of a lane such as "load*2 | .*1"."""
    parts = (part.rpartition("*") for part in lane.split(" | "))
    return [Span("" if label == "." else label, int(width)) for label, _, width in parts]
