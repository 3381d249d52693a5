"""The pages of matrix products: the answer, for each GPU that has rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.catalog.entries import Technique
from harness.operators.gemm.libraries import PEERS
from reports.data.dataset import Dataset
from reports.facts.answer import Race
from reports.pages.answers import Comparison
from reports.pages.prose import Number

LADDER = "ladder"


def _experiments(data: Dataset, language: str) -> list[str]:
    return [name for name in (LADDER, "grid", "libraries") if name in data.experiments]


def _peak(data: Dataset, panel: str) -> float | None:
    """By wgmma all that the tensor cores can; how much of that mma.sync reaches was not measured with products."""
    return 1.0 if panel == "wgmma" else None


ANSWER = Comparison(
    Race(
        languages={"wgmma": ("cuda", "triton", "gluon"), "mma_sync": ("cuda", "triton")},
        libraries={"wgmma": PEERS, "mma_sync": ()},
        experiments=_experiments,
        headline=LADDER,
        peak=_peak,
        labels={"cublaslt": "cuBLASLt, tuned", "inductor": "Inductor"},
    ),
    between="nothing between the products",
    template="gemm/index.html",
)
pages, line = ANSWER.pages, ANSWER.line


def parts(technique: Technique) -> list[tuple[str, dict[str, Any]]]:
    """None: a technique's page shows rows alone."""
    return []


def references(data: Dataset) -> dict[str, Callable[..., Number]]:
    """None beyond those of every operator."""
    return {}
