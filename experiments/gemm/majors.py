"""What does a matrix product cost where m is contiguous in A, or n in B, or both?

either_major runs in each language with every order of A and B, on two squares and on a layer of a language model,
against cuBLAS with the same order; its parent runs where k is contiguous in both. Sizes, FLOPs and bytes of a shape are
the same in every order. The gate draws inputs from three distributions; majors_correctness has all six.
"""

if __name__ == "__main__":
    import _script  # noqa: F401

from dataclasses import replace

from harness.catalog.entries import Experiment
from harness.operators.gemm.libraries import CUBLAS
from harness.operators.gemm.problem import CONTIGUOUS, Problem

SHAPES = (Problem.square(4096), Problem(4096, 14_336, 4096), Problem.square(8192))

EXPERIMENT = Experiment(
    problems=tuple(replace(shape, contiguous=contiguous) for shape in SHAPES for contiguous in CONTIGUOUS),
    techniques=("persistent", "either_major"),
    where={"persistent": SHAPES},
    backends=("cuda", "triton", "gluon"),
    peers=CUBLAS,
    distributions=("positive", "outliers", "cancellation"),
    one_group=True,
)
