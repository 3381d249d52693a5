"""How fast are matrix products under load, where the power limit lowers the clock?

The shapes of grid that keep a GPU busy for long, each kernel launched without pause until its time is stable.
"""

import sys

if __name__ == "__main__":
    sys.path[0] += "/../.."  # import from this checkout

from harness.catalog.entries import Experiment
from harness.operators.gemm.shapes import SHAPES

LEAST = 2**38
"""FLOP of a problem that takes hundreds of microseconds."""

EXPERIMENT = Experiment(
    name="sustained",
    problems=tuple(problem for problem in SHAPES if problem.flops >= LEAST),
    techniques=("two_consumers", "persistent", "pingpong"),
    backends=("cuda", "triton", "gluon"),
    tiles=("best",),
    modes=("sustained",),
)

if __name__ == "__main__":
    from harness.setup.script import become

    become("run", EXPERIMENT.name)
