"""Does it pay to tell L2 what to keep?

A tile of Q is read by one block, K and V by all blocks that work on their head. Beside the flagship, at the same tile,
runs the flagship whose loads tell L2 to evict Q first, and K and V last.
"""

import sys

if __name__ == "__main__":
    sys.path[0] += "/../.."  # import from this checkout

from harness.catalog.problem import Experiment, Problem

EXPERIMENT = Experiment(
    name="cache_hints",
    problems=Problem.comparison_grid((16_384, 4096), (128, 64)),
    techniques=("flagship",),
    backends=("cuda",),
    peers=("sdpa_cudnn",),
    tiles=("best",),
    at_its_tile=("with_cache_hints",),
    one_group=True,
)

if __name__ == "__main__":
    from harness.setup.script import become

    become("run", EXPERIMENT.name)
