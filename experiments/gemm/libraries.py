"""How fast are libraries' matrix products, and how long does one wait for those that compile themselves?

cuBLAS as torch.mm calls it, the best of cuBLASLt's heuristics, Inductor's Triton templates, DeepGEMM and quack, on a
square and on a layer of a language model. A library that is not installed, or does not import here, has a row that says
why.
"""

if __name__ == "__main__":
    import _script  # noqa: F401

from harness.catalog.entries import Experiment
from harness.operators.gemm.libraries import PEERS
from harness.operators.gemm.problem import Problem

EXPERIMENT = Experiment(
    problems=(Problem.square(4096), Problem(4096, 14_336, 4096)),
    peers=PEERS,
    distributions=("positive", "outliers", "cancellation"),
)
