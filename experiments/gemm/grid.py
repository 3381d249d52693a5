"""Is there a faster matrix product on this GPU than cuBLAS, and where?

The best rungs in each language run against cuBLAS as torch.mm calls it and the best of cuBLASLt's heuristics, on 26
shapes in bf16: squares, layers of language models, few rows, short and long k. Times are from a cool GPU with a cold L2
cache, for kernels and libraries alike. Libraries that compile themselves run in the ladder alone: each shape would take
them half a minute. Inputs of the gate are three, because truth in fp64 is slow at these sizes; all six are in the
experiment correctness.
"""

import sys

if __name__ == "__main__":
    sys.path[0] += "/../.."  # import from this checkout

from harness.catalog import techniques
from harness.catalog.entries import Experiment
from harness.operators.gemm.libraries import CUBLAS
from harness.operators.gemm.promises import BEST, FEW_ROWS
from harness.operators.gemm.shapes import SHAPES

FEW = 256
"""Rows of C up to which tiles of 128 rows leave most of a GPU idle."""

EXPERIMENT = Experiment(
    name="grid",
    problems=SHAPES,
    techniques=BEST,
    backends=("cuda", "triton", "gluon"),
    peers=CUBLAS,
    tiles=("chosen",),
    distributions=("positive", "outliers", "cancellation"),
    cells=tuple(
        (problem, name, techniques.reference_tile(techniques.at(name, problem), problem.tile_key))
        for problem in SHAPES
        if problem.m <= FEW
        for name in FEW_ROWS
    ),
)

if __name__ == "__main__":
    from harness.setup.script import become

    become("run")
