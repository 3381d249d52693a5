"""Can a block's number say which tiles it works on, instead of a counter?

The flagship takes its next tile from a counter in global memory. Beside it, at the same tile, runs the flagship in
which block b works on tiles b, b + blocks, b + 2 * blocks and so on. In full attention all tiles take equally long;
with a causal mask they do not.
"""

import sys

if __name__ == "__main__":
    sys.path[0] += "/../.."  # import from this checkout

from harness.catalog.problem import Experiment, Problem

EXPERIMENT = Experiment(
    name="static_order",
    problems=Problem.comparison_grid((16_384, 4096), (128, 64)),
    techniques=("flagship",),
    backends=("cuda",),
    peers=("sdpa_cudnn",),
    tiles=("best",),
    at_its_tile=("without_counter",),
    one_group=True,
)

if __name__ == "__main__":
    from harness.setup.script import become

    become("run", EXPERIMENT.name)
