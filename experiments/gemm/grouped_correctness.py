"""Is every group right: of no rows, of one, of more than a tile, wherever its rows begin?

Sizes of groups are other ones for every distribution of inputs. No tile divides them; in one problem most groups have a
few rows, in one k is a single step. Nothing is timed. Without a GPU the CUDA twin runs thread by thread and the Triton
twin in Triton's interpreter.
"""

if __name__ == "__main__":
    import _script  # noqa: F401

from harness.catalog.entries import Experiment
from harness.catalog.techniques import SERIES
from harness.operators.gemm.libraries import GROUPED_RIVALS
from harness.operators.gemm.problem import Problem
from harness.operators.gemm.promises import GROUPED

EXPERIMENT = Experiment(
    problems=(
        Problem(5000, 520, 1096, groups=9),
        Problem(5000, 520, 1096, "fp16", out="fp32", groups=9),
        Problem(300, 1544, 328, groups=128),
        Problem(1000, 264, 8, groups=40),
        Problem(129, 264, 136, groups=2),
    ),
    techniques=(GROUPED,),
    backends=SERIES,
    peers=GROUPED_RIVALS,
    modes=(),
    padded=True,
)

WITHOUT_GPU = EXPERIMENT.without_gpu(
    ("positive", "outliers", "cancellation"),
    Problem(300, 264, 136, "fp16", groups=9),
    Problem(40, 136, 72, "fp16", out="fp32", groups=16),
    Problem(300, 264, 136, "bf16", groups=9),
)
