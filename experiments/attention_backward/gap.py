"""Where does the gap between core Triton's best one-pass backward kernel and the flagship in CUDA come from?

Between the two stand CUDA kernels, step by step: core Triton's program in CUDA, the same with a producer, the rung
whose own warps add dQ, `overlapped`, and the rungs behind it. Two more are `overlapped` less one technique. All are
timed in one group, at the tile of the ladder, with core Triton's kernels at the tile tuned for them.
"""

if __name__ == "__main__":
    import _script  # noqa: F401

from harness.catalog.entries import Experiment
from harness.operators.attention_backward import prices
from harness.operators.attention_backward.problem import Problem

EXPERIMENT = Experiment(
    problems=Problem.comparison_grid((4096,), (128, 64)),
    techniques=prices.kernels(),
    backends=("cuda", "triton"),
    peers=("sdpa_cudnn",),
    tiles=("chosen",),
    distributions=("shifted", "outliers", "negative_scores"),
    one_group=True,
)
