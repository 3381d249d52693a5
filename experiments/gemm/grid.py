"""Is there a faster matrix product on this GPU than cuBLAS, and where?

The best rungs in each language run against cuBLAS as torch.mm calls it, the best of cuBLASLt's heuristics, and
Inductor's Triton templates, on 26 shapes in bf16: squares, layers of language models, few rows, short and long k. Times
are from a cool GPU with a cold L2 cache, for kernels and libraries alike.
"""

import sys

if __name__ == "__main__":
    sys.path[0] += "/../.."  # import from this checkout

from harness.catalog.entries import Experiment
from harness.operators.gemm.shapes import SHAPES

TECHNIQUES = ("two_consumers", "persistent", "pingpong")
"""Rungs that can be the fastest of their language."""

EXPERIMENT = Experiment(
    name="grid",
    problems=SHAPES,
    techniques=TECHNIQUES,
    backends=("cuda", "triton", "gluon"),
    tiles=("reference", "best"),
)

if __name__ == "__main__":
    from harness.setup.script import become

    become("run", EXPERIMENT.name)
