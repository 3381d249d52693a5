"""How fast are the flagship and the libraries under load, where the power limit lowers the clock?

The long sequences of hopper_grid, with each kernel launched without pause until its time is stable: TFLOPS, clock and
watts of a GPU under load.
"""

import sys

if __name__ == "__main__":
    sys.path[0] += "/../.."  # import from this checkout

from harness.catalog.entries import Experiment
from harness.operators.attention.problem import Problem
from harness.setup.script import become

EXPERIMENT = Experiment(
    name="hopper_sustained",
    problems=Problem.comparison_grid((8192, 16_384)),
    techniques=("flagship",),
    backends=("cuda", "triton"),
    peers=("sdpa_cudnn", "fa3", "fa4"),
    tiles=("reference", "best"),
    modes=("sustained",),
)

if __name__ == "__main__":
    become("run")
