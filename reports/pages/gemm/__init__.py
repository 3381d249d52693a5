"""The pages of matrix products: the answer, for each GPU that has rows."""

from harness.operators.gemm.libraries import PEERS
from reports.facts.answer import Race, among
from reports.pages.answers import GRID, Comparison

ANSWER = Comparison(
    Race(
        languages={"wgmma": ("cuda", "triton", "gluon"), "mma_sync": ("cuda", "triton")},
        libraries={"wgmma": PEERS, "mma_sync": ()},
        experiments=among("ladder", GRID, "libraries"),
        labels={"inductor": "Inductor"},
    ),
    between="nothing between the products",
)
pages, line = ANSWER.pages, ANSWER.line
