"""What does core Triton gain past its language, by inline PTX?

softmax_lock's lock between two halves of the warps, written in inline PTX, runs at one tile beside the Triton and the
CUDA kernel of that rung.
"""

if __name__ == "__main__":
    import _script  # noqa: F401

from harness.catalog.entries import Experiment
from harness.operators.attention.problem import Problem

EXPERIMENT = Experiment(
    problems=Problem.comparison_grid((4096,), (64, 128)),
    techniques=("softmax_lock",),
    backends=("cuda", "triton", "hatch"),
    peers=("sdpa_cudnn",),
    one_group=True,
)
