"""Is core Triton's backward pass of attention faster than FlexAttention's, which Inductor writes in Triton too?

Core Triton's flagship, with seven products, and longest_first, with five, run against FlexAttention at both head sizes,
full and causal. FlexAttention is compiled for each problem anew, and tries its tiles.
"""

import sys

if __name__ == "__main__":
    sys.path[0] += "/../.."  # import from this checkout

from harness.catalog.entries import Experiment
from harness.operators.attention_backward.problem import Problem

EXPERIMENT = Experiment(
    name="over_flex",
    problems=Problem.comparison_grid((4096,), (64, 128)),
    techniques=("flagship", "longest_first"),
    backends=("triton",),
    peers=("sdpa_cudnn", "flex"),
    tiles=("chosen",),
    distributions=("shifted",),
    one_group=True,
)

if __name__ == "__main__":
    from harness.setup.script import become

    become("run")
