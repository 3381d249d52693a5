"""Is core Triton's backward pass of attention faster than FlexAttention's, which Inductor writes in Triton too?

Core Triton's flagship, with seven products, and longest_first, with five, run against FlexAttention at both head sizes,
full and causal. loads_first, and the flagship with head_dim 64, have tiles of which two programs fit a multiprocessor.
FlexAttention is compiled for each problem anew, and tries its tiles.
"""

if __name__ == "__main__":
    import _script  # noqa: F401

from harness.catalog.entries import Experiment, Tile
from harness.operators.attention_backward.problem import Problem

PROBLEMS = Problem.comparison_grid((4096,), (64, 128))

EXPERIMENT = Experiment(
    problems=PROBLEMS,
    techniques=("flagship", "longest_first"),
    backends=("triton",),
    cells=tuple(
        (problem, name, Tile(8192 // problem.head_dim, 64, 1, 4), "triton")
        for problem in PROBLEMS
        for name in ("flagship", "loads_first")
        if name == "loads_first" or problem.head_dim == 64
    ),
    peers=("sdpa_cudnn", "flex"),
    tiles=("chosen",),
    distributions=("shifted",),
    one_group=True,
)
