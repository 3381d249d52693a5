"""Is the flagship right on a thousand problems that nobody chose?

They are drawn at random, always the same ones: any lengths, one of three with as many keys as queries, up to three
batches and twelve heads, every head dimension, number format, mask and storage order, and rows of NaN after every
sequence. The tiles are those that `tune` chose. Every kernel is checked and none is timed.
"""

import sys

if __name__ == "__main__":
    sys.path[0] += "/../.."  # import from this checkout

from functools import partial

from harness.catalog.entries import Experiment
from harness.catalog.experiments import distinct
from harness.operators.attention.drawn import drawn
from harness.operators.attention.problem import Problem
from harness.setup.script import become

EXPERIMENT = Experiment(
    name="random_problems",
    problems=distinct(partial(drawn, Problem)),
    techniques=("flagship",),
    backends=("cuda",),
    peers=(),
    tiles=("best",),
    modes=(),
    padded=True,
)

if __name__ == "__main__":
    become("run")
