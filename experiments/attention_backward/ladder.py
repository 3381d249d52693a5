"""What does each step of attention's backward pass buy, in each language?

Every rung runs in every language that has it, at its reference tile and at the tile tuned for it, at both head sizes,
full and causal. The libraries show how fast gradients can be.
"""

import sys

if __name__ == "__main__":
    sys.path[0] += "/../.."  # import from this checkout

from harness.catalog.entries import Experiment
from harness.catalog.techniques import SERIES
from harness.operators.attention_backward.ladders import hopper
from harness.operators.attention_backward.problem import Problem

EXPERIMENT = Experiment(
    name="ladder",
    problems=Problem.comparison_grid((4096,), (128, 64)),
    techniques=tuple(technique.name for technique in hopper.TECHNIQUES),
    backends=SERIES,
    tiles=("reference", "best"),
)

if __name__ == "__main__":
    from harness.setup.script import become

    become("run")
