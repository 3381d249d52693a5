"""What does each step with wgmma gain, from short sequences to long ones?

Every rung of the wgmma ladder runs in each language, at its reference tile and at the tile tuned for the length, beside
the fastest attention libraries for this GPU. The number of tokens and the model width stay the same
(batch * seq = 16384, heads * head_dim = 2048).
"""

import sys

if __name__ == "__main__":
    sys.path[0] += "/.."  # import from this checkout

from harness.catalog.ladders.hopper import TECHNIQUES
from harness.catalog.problem import Experiment, Problem

EXPERIMENT = Experiment(
    name="hopper",
    problems=Problem.comparison_grid((4096, 1024, 16_384, 512)),
    techniques=tuple(technique.name for technique in TECHNIQUES),
    backends=("cuda", "triton", "gluon"),
    peers=("sdpa_cudnn", "fa3", "fa4"),
    tiles=("reference", "best"),
)

if __name__ == "__main__":
    from harness.setup.script import become

    become("run", EXPERIMENT.name)
