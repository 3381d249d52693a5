"""Is a product right where m is contiguous in A, or n in B, or both?

In every dtype, where no tile divides it, and in one step of k. Nothing is timed. Without a GPU the CUDA twin runs
thread by thread and the Triton twin in Triton's interpreter.
"""

if __name__ == "__main__":
    import _script  # noqa: F401

from dataclasses import replace

from harness.catalog.entries import Experiment
from harness.catalog.techniques import SERIES
from harness.operators.gemm.libraries import CUBLAS
from harness.operators.gemm.problem import CONTIGUOUS, Problem

EXPERIMENT = Experiment(
    problems=tuple(
        replace(problem, contiguous=contiguous)
        for contiguous in CONTIGUOUS
        for problem in (
            Problem(512, 768, 1024),
            Problem(200, 264, 136, "fp16", "bias", "fp32"),
            Problem(1288, 1544, 520, "bf16", "gelu"),
            Problem(8, 264, 8),
        )
    ),
    techniques=("either_major",),
    backends=SERIES,
    peers=CUBLAS,
    modes=(),
    padded=True,
)

WITHOUT_GPU = EXPERIMENT.without_gpu(
    ("positive", "outliers", "cancellation"),
    Problem(128, 256, 448, "fp16", contiguous="mn"),
    Problem(72, 136, 200, "fp16", "bias", "fp32", contiguous="mk"),
    Problem(72, 136, 200, "fp16", "gelu", contiguous="kn"),
    Problem(72, 136, 200, contiguous="mn"),
)
