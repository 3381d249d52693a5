"""The pages of matrix products: the answer, for each GPU that has rows."""

from harness.operators.gemm.libraries import PEERS
from reports.data.dataset import Dataset
from reports.facts.answer import Race
from reports.pages.answers import Comparison

LADDER = "ladder"


def _experiments(data: Dataset, language: str) -> list[str]:
    return [name for name in (LADDER, "grid", "libraries") if name in data.experiments]


ANSWER = Comparison(
    Race(
        languages={"wgmma": ("cuda", "triton", "gluon"), "mma_sync": ("cuda", "triton")},
        libraries={"wgmma": PEERS, "mma_sync": ()},
        experiments=_experiments,
        headline=LADDER,
        labels={"inductor": "Inductor"},
    ),
    between="nothing between the products",
)
pages, line = ANSWER.pages, ANSWER.line
