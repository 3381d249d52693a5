"""How fast are matrix products under load, where the power limit lowers the clock?

The shapes of grid that keep a GPU busy for longest, run with each kernel launched without pause until its time
is stable. That takes seconds a kernel, so each problem is one group: several would time the libraries again.
"""

if __name__ == "__main__":
    import _script  # noqa: F401

from harness.catalog.entries import Experiment
from harness.operators.gemm.libraries import CUBLAS
from harness.operators.gemm.promises import FLAGSHIP
from harness.operators.gemm.shapes import SHAPES

LEAST = 2**39
"""FLOP of a problem that takes more than half a millisecond."""

EXPERIMENT = Experiment(
    problems=tuple(problem for problem in SHAPES if problem.flops >= LEAST),
    techniques=(FLAGSHIP,),
    backends=("cuda", "triton", "gluon"),
    peers=CUBLAS,
    tiles=("chosen",),
    modes=("sustained",),
    distributions=("positive", "outliers", "cancellation"),
    one_group=True,
)
