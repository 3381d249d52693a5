"""The pages of attention's backward pass: the answer, for each GPU that has rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.catalog import techniques
from harness.catalog.techniques import LANGUAGES
from harness.operators.attention_backward.prices import EXPERIMENT as GAP
from reports.data.dataset import Dataset
from reports.facts.answer import Race
from reports.pages.answers import Comparison, fastest_of, peak

LADDER, GRID = "ladder", "grid"


def _experiments(data: Dataset, language: str) -> list[str]:
    return [name for name in (LADDER, GRID, GAP) if name in data.experiments]


class Backward(Comparison):
    """With the speed of gradients that repeat."""

    def page(self, data: Dataset, every: Mapping[str, Dataset]) -> dict[str, Any]:
        variables = super().page(data, every)
        repeating = [technique for technique in data.operator.techniques if technique.repeats]
        points = {name: fastest_of(data, LADDER, variables["answer"].problem, repeating, name) for name in LANGUAGES}
        return variables | {
            "repeats": {name: point for name, point in points.items() if point.counts},
            "deterministic": techniques.get("attention_backward/deterministic"),
        }


ANSWER = Backward(
    Race(
        languages={"wgmma": ("cuda", "triton", "gluon"), "mma_sync": ("cuda", "triton")},
        libraries={"wgmma": ("sdpa_cudnn", "fa4", "flex"), "mma_sync": ("sdpa_flash",)},
        experiments=_experiments,
        headline=LADDER,
        peak=peak,
        labels={"sdpa_flash": "FlashAttention-2"},
    ),
    between="who adds dQ while others multiply",
    template="attention_backward/index.html",
)
pages, line, parts, references = ANSWER.pages, ANSWER.line, ANSWER.parts, ANSWER.references
