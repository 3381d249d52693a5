"""Do busy neighbours move a ratio: one cell alone, and with all other GPUs of the host at work?

GPUs of one host share its power, its cooling and its processors. The flagship and the libraries are timed in five
processes with the other GPUs idle and in five with matrix products on all of them, alternating, always on the first
GPU. If the ratios of the two kinds of process do not overlap, neighbours matter, and headline cells are timed with the
others idle. The experiment needs at least two GPUs.
"""

import sys

if __name__ == "__main__":
    sys.path[0] += "/.."  # import from this checkout

from harness.catalog.problem import Experiment, Problem

EXPERIMENT = Experiment(
    name="neighbours",
    problems=(Problem.square(4, 16, 4096, 128, causal=True),),
    techniques=("flagship",),
    backends=("cuda",),
    tiles=("best", "reference"),
    neighbours=5,
)

if __name__ == "__main__":
    from harness.setup.script import become

    become("run", EXPERIMENT.name)
