"""What does the second buffer of Q gain?

With two buffers a persistent block loads the Q of its next tile while it works on this one. Beside it, at the same
tile, runs the block with one buffer, which can load it only when all warps have done the last Q K^T of this one. Both
run at the tile of their ladder, of 192 rows, and at head_dim 128 at one of 128 rows too. The shorter the sequence, the
larger the share of what lies between two tiles.
"""

import sys

if __name__ == "__main__":
    sys.path[0] += "/../.."  # import from this checkout

from harness.catalog.problem import Experiment, Problem
from harness.operators.attention import gap as ledger

PROBLEMS = Problem.comparison_grid((16_384, 4096, 1024), (128, 64))
KERNELS = ("persistent", "without_second_q_buffer")
EXPERIMENT = Experiment(
    name="one_q_buffer",
    problems=PROBLEMS,
    techniques=KERNELS,
    backends=("cuda",),
    peers=("sdpa_cudnn",),
    cells=tuple((one, name, ledger.SQUARE) for one in PROBLEMS if one.head_dim == 128 for name in KERNELS),
    one_group=True,
)

if __name__ == "__main__":
    from harness.setup.script import become

    become("run", EXPERIMENT.name)
