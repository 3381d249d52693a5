"""Does it cost anything that the producer waits for its next tile's number before it asks for the last V?

The flagship takes its next tile from a counter in global memory, and its producer has the number before it goes on.
Beside it, at the same tile, runs the flagship whose producer asks for the last V of a tile while the number is on its
way. The shorter the sequence, the more often that happens.
"""

import sys

if __name__ == "__main__":
    sys.path[0] += "/../.."  # import from this checkout

from harness.catalog.problem import Experiment, Problem

EXPERIMENT = Experiment(
    name="number_in_flight",
    problems=Problem.comparison_grid((16_384, 4096, 1024), (128, 64)),
    techniques=("flagship",),
    backends=("cuda",),
    peers=("sdpa_cudnn",),
    tiles=("best",),
    at_its_tile=("with_number_in_flight",),
    one_group=True,
)

if __name__ == "__main__":
    from harness.setup.script import become

    become("run", EXPERIMENT.name)
