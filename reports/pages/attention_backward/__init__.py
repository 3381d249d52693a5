"""The pages of attention's backward pass: the answer, for each GPU that has rows."""

from collections.abc import Mapping
from typing import Any

from harness.catalog import sources, techniques
from harness.catalog.entries import Technique
from harness.catalog.techniques import LANGUAGES
from harness.operators.attention_backward.prices import EXPERIMENT as GAP
from reports.data.dataset import Dataset, fastest
from reports.facts.answer import Race, among, kernels, program
from reports.facts.steps import program_of
from reports.pages.answers import GRID, Comparison

FLEX = "over_flex"
EXPERIMENTS = among("ladder", GRID, GAP, FLEX)


def _repeating(data: Dataset, language: str) -> list[Technique]:
    """Rungs whose bits repeat in this language: a one-line twin has the bits of the program that it names."""
    written = (rung for rung in data.operator.techniques if sources.has_series(language, rung.path))
    return [rung for rung in written if program_of(rung, language).repeats]


class Backward(Comparison):
    """With the speed of gradients that repeat."""

    def page(self, data: Dataset, every: Mapping[str, Dataset]) -> dict[str, Any]:
        variables = super().page(data, every)
        problem = variables["answer"].problem
        deterministic, best = techniques.get("attention_backward/deterministic"), variables["answer"].best("triton")
        points = {
            language: fastest(kernels(data, EXPERIMENTS(data, language), problem, _repeating(data, language), language))
            for language in LANGUAGES
        }
        return variables | {
            "repeats": {name: point.tflops for name, point in points.items() if point.counts},
            "programs": {name: program(point.row).name for name, point in points.items() if point.row},
            "deterministic": deterministic,
            "in_fixed_order": bool(best.point.row and program(best.point.row) == deterministic),
        }


ANSWER = Backward(
    Race(
        languages={"wgmma": ("cuda", "triton", "gluon"), "mma_sync": ("cuda", "triton")},
        libraries={"wgmma": ("sdpa_cudnn", "fa4", "flex"), "mma_sync": ("sdpa_flash",)},
        experiments=EXPERIMENTS,
        labels={"sdpa_flash": "FlashAttention-2"},
    ),
    between="who adds dQ while others multiply",
    beside=FLEX,
)
pages, line = ANSWER.pages, ANSWER.line
