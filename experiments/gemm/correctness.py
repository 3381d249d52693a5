"""Is every product right: for every dtype, epilogue and output, when no tile divides it, in one step of k and in many?

The problems are small; every kernel is checked and none is timed. Without a GPU the CUDA twins run thread by thread and
the Triton twins run in Triton's interpreter, on problems of fp16. One more is of bf16: the Triton twins decline it.
"""

if __name__ == "__main__":
    import _script  # noqa: F401

from itertools import product

from harness.catalog.entries import Experiment
from harness.catalog.techniques import SERIES
from harness.operators.gemm.ladders import ampere, hopper
from harness.operators.gemm.libraries import CUBLAS
from harness.operators.gemm.problem import Problem

TECHNIQUES = tuple(technique.name for technique in (*ampere.TECHNIQUES, *hopper.TECHNIQUES))

EXPERIMENT = Experiment(
    problems=(
        *(
            Problem(m, n, k, dtype, epilogue, out)
            for dtype, epilogue, out in product(("fp16", "bf16"), ("plain", "bias", "gelu"), ("same", "fp32"))
            for m, n, k in ((512, 768, 1024), (200, 264, 136))
        ),
        Problem(256, 512, 32768),  # many steps: what an accumulator cuts off adds up
        Problem(256, 512, 32768, "fp16", "plain", "fp32"),
        Problem(1, 264, 8),  # one row, one step of k that is no whole tile
        Problem(8, 12288, 8192),  # few rows, many columns
        Problem(1280, 1536, 512),  # the group of the grid order does not divide the tiles
    ),
    techniques=TECHNIQUES,
    backends=SERIES,
    peers=CUBLAS,
    modes=(),
    padded=True,
)

WITHOUT_GPU = EXPERIMENT.without_gpu(
    ("positive", "outliers", "cancellation"),
    Problem(128, 256, 448, "fp16"),  # seven steps: rings of three and of five buffers wrap
    Problem(256, 256, 64, "fp16", "gelu"),  # one step, two tiles
    Problem(256, 256, 128, "fp16", "bias", "fp32"),
    Problem(72, 136, 200, "fp16", "plain", "fp32"),  # no tile divides it
    Problem(128, 256, 64, "bf16"),  # the other format
)
