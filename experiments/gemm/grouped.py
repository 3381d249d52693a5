"""How fast is one launch for groups of rows, each with a B of its own, as in a layer of experts?

Groups of unlike m: 8 to 128 experts, of sizes that language models have. The rows of A and C lie group by group without
gaps and without padding, the B of all groups in one tensor, and the end of each group in device memory. How many rows a
group has follows from the seed: rows are drawn independently, the group of rank r with a probability of 1 / r of the
first one's (Zipf's law), the ranks in random order; one group in eight has no rows, and no tile divides the others.
The time is that of the product alone, of all launches that a call makes; FLOPs are those of the rows that there are.
torch._grouped_mm gets the same tensors; torch.mm is called once for each group with rows, of sizes that the host knows.
DeepGEMM's groups begin at multiples of 128 rows: its row says so. The gate draws inputs from three distributions; the
experiment grouped_correctness has all six.
"""

if __name__ == "__main__":
    import _script  # noqa: F401

from harness.catalog.entries import Experiment
from harness.operators.gemm.libraries import GROUPED as LIBRARIES
from harness.operators.gemm.promises import GROUPED
from harness.operators.gemm.shapes import GROUPED_SHAPES

EXPERIMENT = Experiment(
    problems=GROUPED_SHAPES,
    techniques=(GROUPED,),
    backends=("cuda", "triton", "gluon"),
    peers=LIBRARIES,
    tiles=("chosen",),
    distributions=("positive", "outliers", "cancellation"),
)
