"""Does the vote on the sign of row maxima cost anything?

The flagship compares the bits of scores as integers, three at a time, and its warps vote in every step whether all
scores of a row are negative. Beside it, at the same tile, runs the flagship without the vote, in which a loop of floats
comes first, until no row maximum is negative, and the flagship whose warps vote until then, in the flagship's loop.
"""

import sys

if __name__ == "__main__":
    sys.path[0] += "/../.."  # import from this checkout

from harness.catalog.problem import Experiment, Problem

EXPERIMENT = Experiment(
    name="vote",
    problems=Problem.comparison_grid((16_384, 4096), (128, 64)),
    techniques=("flagship",),
    backends=("cuda",),
    peers=("sdpa_cudnn",),
    tiles=("best",),
    at_its_tile=("without_vote", "without_repeated_vote"),
    one_group=True,
)

if __name__ == "__main__":
    from harness.setup.script import become

    become("run", EXPERIMENT.name)
