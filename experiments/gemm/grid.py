"""Is there a faster matrix product on this GPU than cuBLAS, and where?

The flagship of each language runs against cuBLAS as torch.mm calls it and the best of cuBLASLt's heuristics, on 26
shapes in bf16: squares, layers of language models, few rows, short and long k. Times are from a cool GPU with a cold L2
cache, for kernels and libraries alike. Libraries that compile themselves would compile again for each shape; they are
in the experiment libraries. The gate draws inputs from three distributions, because truth in fp64 is slow at these
sizes; the experiment correctness has all six. The longest problems come last, so that shards are even and a run that
ends early has most cells.
"""

if __name__ == "__main__":
    import _script  # noqa: F401

from harness.catalog.entries import Experiment
from harness.operators.gemm.libraries import CUBLAS
from harness.operators.gemm.promises import FLAGSHIP
from harness.operators.gemm.shapes import SHAPES

EXPERIMENT = Experiment(
    problems=tuple(sorted(SHAPES, key=lambda problem: problem.flops)),
    techniques=(FLAGSHIP,),
    backends=("cuda", "triton", "gluon"),
    peers=CUBLAS,
    tiles=("chosen",),
    distributions=("positive", "outliers", "cancellation"),
)
