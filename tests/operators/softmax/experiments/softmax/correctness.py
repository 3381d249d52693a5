"""Is softmax right, at any number of rows and columns?"""

from harness.operators.softmax.operator import Problem

from harness.catalog.entries import Experiment

EXPERIMENT = Experiment(
    (Problem(64, 96), Problem(65, 33)), techniques=("online",), backends=("cuda", "triton"), peers=(), modes=()
)
WITHOUT_GPU = EXPERIMENT
