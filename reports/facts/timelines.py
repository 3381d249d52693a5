"""Who works when, before and after a technique: the schematic drawings of timelines.toml, which says how to read it."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from pathlib import Path

DRAWINGS = Path(__file__).with_suffix(".toml")
AS = {
    "lazy_consumers": "lazy_rescale",
    "lazy_rescale_wgmma": "lazy_rescale",
    "lazy_scores_in_flight": "scores_in_flight",
    "lean_mbarrier_ring": "mbarrier_ring",
    "setmaxnreg_consumers": "producer_consumer",
    "softmax_lock": "exp_lock",
}
"""Technique -> the one whose drawings it has."""
PRODUCTS = ("Q K", "P V", "products")
COPIES = ("load", "store", "reads")


@dataclass(frozen=True)
class Span:
    label: str  # "" where the lane waits
    width: int

    @property
    def kind(self) -> str:
        """What it is drawn as: product, copy, wait or other."""
        if not self.label:
            return "wait"
        return "product" if self.label.startswith(PRODUCTS) else "copy" if self.label.startswith(COPIES) else "other"


@dataclass(frozen=True)
class Timeline:
    """`lanes`: who -> what it does."""

    title: str
    text: str
    lanes: dict[str, str]

    def spans(self) -> dict[str, list[Span]]:
        return {who: [_span(text) for text in lane.split(" | ")] for who, lane in self.lanes.items()}


@dataclass(frozen=True)
class Heading:
    """What the drawings of a technique show. `legend`: kind of a span -> what it is, of those that are drawn."""

    title: str
    text: str = "From left to right, a drawing and not a measurement"
    legend: tuple[tuple[str, str], ...] = (
        ("product", "tensor cores"),
        ("copy", "copies"),
        ("other", "other work"),
        ("wait", "waits"),
    )


def heading(name: str) -> Heading:
    """Of a technique's drawings."""
    found = HEADINGS.get(name, WHEN)
    kinds = {span.kind for one in TIMELINES[name] for lane in one.spans().values() for span in lane}
    return replace(found, legend=tuple(each for each in found.legend if each[0] in kinds))


def _span(text: str) -> Span:
    label, _, width = text.rpartition("*")
    return Span("" if label == "." else label, int(width))


def _drawn() -> dict[str, tuple[Timeline, ...]]:
    found = {name: tuple(Timeline(**one) for one in pair) for name, pair in tomllib.loads(DRAWINGS.read_text()).items()}
    return found | {name: found[other] for name, other in AS.items()}


TIMELINES = _drawn()
"""Technique -> before it and with it."""

WHEN = Heading("Who works when")
ITERATION = Heading("What an iteration does", legend=(*WHEN.legend[:3], ("wait", "nothing to do")))
SCORE = Heading(
    "What a score goes through", legend=(("other", "instructions"), ("product", "products"), ("wait", "waits"))
)
HEADINGS = {
    "scalar": Heading("What passes through memory"),
    "mma_ldmatrix": Heading("What passes through shared memory"),
    "register_softmax": Heading("What passes through shared memory"),
    "staged_epilogue": Heading("How a row of O leaves"),
    "integer_max": Heading("How the largest of five scores is found", legend=SCORE.legend),
    "wide_tile": Heading(
        "What the registers hold",
        "A multiprocessor's registers at head_dim 128, to scale; a drawing and not a measurement",
        (("other", "of a thread in this warpgroup"), ("wait", "left for the third")),
    ),
    **dict.fromkeys(("exp2_softmax", "direct_rescale"), SCORE),
    **dict.fromkeys(("conditional_rescale", "lazy_rescale", "lazy_consumers", "lazy_rescale_wgmma"), ITERATION),
    **dict.fromkeys(("large_tile", "general_shapes", "lean_instructions"), ITERATION),
}
"""Technique -> what its drawings show, where it is not who works when."""
