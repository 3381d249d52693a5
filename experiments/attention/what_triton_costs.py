"""What does each technique of the first page cost in Triton?

Every technique that the report's matrix gives a ratio of runs in CUDA, Triton and Gluon, at its reference tile and at
the tile tuned for it, on the problem of the first page. Those with one kind of tensor-core instructions are interleaved
with each other in one group, so each ratio is of one process; `--replicates 3` gives it an interval. Beside them run
the fastest CUDA kernel with mma.sync, which the others' bars are compared with, and what the two techniques that Triton
cannot express are built on.
"""

if __name__ == "__main__":
    import _script  # noqa: F401

from harness.catalog.entries import Experiment
from harness.operators.attention.problem import Problem

MATRIX = (
    *("tma_swizzle", "padded_rows", "l2_grid_order", "lazy_rescale", "xor_swizzle", "mbarrier_ring"),
    *("cp_async_pipeline", "setmaxnreg_consumers", "producer_consumer", "wgmma", "overlapped_softmax", "exp_lock"),
    *("wide_tile", "cluster_multicast"),
)
EXPERIMENT = Experiment(
    problems=(Problem.square(4, 16, 4096, 128),),
    techniques=(*MATRIX, "lazy_consumers", "pingpong", "pinned_maxima"),
    backends=("cuda", "triton", "gluon"),
    peers=("sdpa_cudnn",),
    tiles=("reference", "best"),
    one_group=True,
)
