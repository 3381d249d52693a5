"""Schematic drawings before and after a technique, from the block "```toml drawings" of its note.

    as = "exp_lock"                 the drawings of another technique, or:
    heading = "..."                 where they do not show who works when; text and legend.KIND likewise
    [[drawing]]                     one before the technique, one with it
    title, text = "...", "..."
    lanes.WHO = "load*2 | .*1"      spans as label*width from left to right; "." waits; all lanes are equally long

Nothing in them is measured.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from harness import operators

NOTES = Path(__file__).resolve().parent.parent / "notes" / operators.FIRST
BLOCK = re.compile(r"^```toml drawings\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
LEGEND = {"product": "tensor cores", "copy": "copies", "other": "other work", "wait": "waits"}
WAITS = "waits"


@dataclass(frozen=True)
class Span:
    """`label` is empty where the lane waits."""

    label: str
    width: int

    @property
    def kind(self) -> str:
        """What it is drawn as, a key of LEGEND."""
        if not self.label or self.label.startswith(WAITS):
            return "wait"
        if self.label.startswith(("Q K", "P V", "product")):
            return "product"
        return "copy" if self.label.startswith(("load", "store", "reads")) else "other"


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
        timelines = of(block.pop("drawing"))
    described = legend(timelines, block.get("legend", {}))
    text = block.get("text", "From left to right, a drawing and not a measurement")
    return Drawings(block.get("heading", "Who works when"), text, described, timelines)


def of(drawn: Iterable[Mapping[str, Any]]) -> list[Timeline]:
    return [
        Timeline(one.get("title", ""), one.get("text", ""), {who: spans(lane) for who, lane in one["lanes"].items()})
        for one in drawn
    ]


def legend(drawn: Iterable[Timeline], given: Mapping[str, str]) -> dict[str, str]:
    """Kind of a span -> what it is, of those that are drawn. `given`: where that is not LEGEND."""
    kinds = {span.kind for one in drawn for lane in one.lanes.values() for span in lane}
    return {kind: what for kind, what in {**LEGEND, **given}.items() if kind in kinds}


def spans(lane: str) -> list[Span]:
    """Of a lane such as "load*2 | .*1"."""
    parts = (part.rpartition("*") for part in lane.split(" | "))
    return [Span("" if label == "." else label, int(width)) for label, _, width in parts]
