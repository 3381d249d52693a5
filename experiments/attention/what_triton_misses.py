"""Where does the gap between the best core Triton kernel and our fastest CUDA kernel come from?

The price of a technique is measured in two ways, where both are possible: what the flagship loses without it, and what
the ladder gains when it is added. All these kernels run at the flagship's tile. They are timed interleaved with the
best kernels of core Triton, of Gluon and of TLX, with a CUDA kernel that does only what core Triton can express, and
with the flagship at smaller tiles. At the tile of Gluon's and TLX's kernels the flagship also does without what these
lack. The kernel of TLX is launched from a cubin, which twinkernels build makes. The option --ptxas shared adds Triton's
PTX as nvcc's ptxas assembles it.
"""

if __name__ == "__main__":
    import _script  # noqa: F401

from harness.catalog.entries import Experiment
from harness.operators.attention import gap as ledger
from harness.operators.attention.problem import Problem

PROBLEMS = Problem.comparison_grid((4096, 16_384), (128, 64))
EXPERIMENT = Experiment(
    problems=PROBLEMS,
    techniques=("flagship",),
    backends=("cuda", "triton", "gluon", ledger.TLX),
    peers=("sdpa_cudnn",),
    tiles=("best",),
    at_its_tile=ledger.kernels(),
    cells=tuple((problem, *cell) for problem in PROBLEMS for cell in ledger.at_their_tiles(problem)),
    one_group=True,
)
