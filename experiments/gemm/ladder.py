"""What does each step of a matrix product buy, in each language?

Every rung of both ladders runs in CUDA, in Triton and, where it has a kernel, in Gluon, at its reference tile and at
the tile tuned for it, on a square that fills the GPU four times. The libraries show how fast a product can be: cuBLAS,
and those that compile themselves.
"""

import sys

if __name__ == "__main__":
    sys.path[0] += "/../.."  # import from this checkout

from harness.catalog.entries import Experiment
from harness.catalog.techniques import SERIES
from harness.operators.gemm.ladders import ampere, hopper
from harness.operators.gemm.problem import Problem

EXPERIMENT = Experiment(
    name="ladder",
    problems=(Problem.square(4096),),
    techniques=tuple(technique.name for technique in (*ampere.TECHNIQUES, *hopper.TECHNIQUES)),
    backends=SERIES,
    tiles=("reference", "best"),
)

if __name__ == "__main__":
    from harness.setup.script import become

    become("run")
