"""What does each step of attention's backward pass buy, in each language?

Every rung runs in CUDA, in Triton and, where it has a kernel, in Gluon, at its reference tile and at the tile tuned for
it, at both head sizes, full and causal. cuDNN and FlashAttention-2 show how fast gradients can be. The gate draws
inputs from three distributions; the experiment correctness has all six.
"""

if __name__ == "__main__":
    import _script  # noqa: F401

from harness.catalog.entries import Experiment
from harness.operators.attention_backward.ladders import hopper
from harness.operators.attention_backward.problem import Problem

EXPERIMENT = Experiment(
    problems=Problem.comparison_grid((4096,), (128, 64)),
    techniques=tuple(technique.name for technique in hopper.TECHNIQUES),
    backends=("cuda", "triton", "gluon"),
    tiles=("reference", "best"),
    distributions=("shifted", "outliers", "negative_scores"),
)
