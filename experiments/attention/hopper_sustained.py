"""How fast are the flagship and the libraries under load, where the power limit lowers the clock?

The long sequences of hopper_grid, with each kernel launched without pause until its time is stable: TFLOPS, clock and
watts of a GPU under load. Each kernel takes seconds: the flagship has its best tile alone, each problem one group.
"""

if __name__ == "__main__":
    import _script  # noqa: F401

from harness.catalog.entries import Experiment
from harness.operators.attention.problem import Problem

EXPERIMENT = Experiment(
    problems=Problem.comparison_grid((8192, 16_384)),
    techniques=("flagship",),
    backends=("cuda",),
    peers=("sdpa_cudnn", "fa3", "fa4"),
    tiles=("chosen",),
    modes=("sustained",),
    distributions=("normal",),
    one_group=True,
)
