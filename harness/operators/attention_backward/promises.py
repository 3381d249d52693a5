"""The ratios of attention's backward pass that the scorecard follows. Standard library only."""

from harness.catalog.promises import FASTEST, Promise
from harness.operators.attention.problem import ANCHOR

RIVALS = (ANCHOR, "fa4")
"""cuDNN's and flash-attn 4's gradients, whose bits may vary."""
GRID = "grid"


def promises() -> tuple[Promise, ...]:
    """In the order of the scorecard. An entry begins with its first row."""
    return (
        Promise("backward_over_fastest", "cuda", FASTEST, GRID, rivals=RIVALS),
        Promise(
            "backward_deterministic_over_fastest",
            "cuda",
            FASTEST,
            GRID,
            repeats=True,
            rivals=("fa4_deterministic",),
        ),
        Promise("backward_gluon_over_cudnn", "gluon", ANCHOR, GRID),
        Promise("backward_triton_over_flex", "triton", "flex", "over_flex"),
    )
