"""Does it pay to compute some exponentials on the FMA pipe?

MUFU computes the flagship's exponentials, and at head_dim 64 it is busy for as long as the tensor cores. Beside the
flagship, at the same tile, runs the flagship in which polynomials compute two exponentials of sixteen. flash-attn-4
does so on Blackwell, where the tensor cores are twice as fast.
"""

import sys

if __name__ == "__main__":
    sys.path[0] += "/../.."  # import from this checkout

from harness.catalog.problem import Experiment, Problem

EXPERIMENT = Experiment(
    name="polynomials",
    problems=Problem.comparison_grid((16_384, 4096), (128, 64)),
    techniques=("flagship",),
    backends=("cuda",),
    peers=("sdpa_cudnn",),
    tiles=("best",),
    at_its_tile=("with_polynomials",),
    one_group=True,
)

if __name__ == "__main__":
    from harness.setup.script import become

    become("run", EXPERIMENT.name)
