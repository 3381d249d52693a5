"""Does it pay that two blocks share K and V, in Gluon too?

Multicast and its parent run in CUDA and in Gluon, at one tile. Gluon can express multicast since Triton 3.8, so these
kernels are launched from cubins, each beside its parent compiled by the same Triton.
"""

if __name__ == "__main__":
    import _script  # noqa: F401

from harness.catalog.entries import Experiment, Tile
from harness.operators.attention.problem import Problem

PROBLEMS = tuple(problem for problem in Problem.comparison_grid((4096, 1024, 16_384), (64, 128)) if not problem.causal)

EXPERIMENT = Experiment(
    problems=PROBLEMS,
    backends=("cuda", "gluon", "gluon@3.8.0", "gluon@3.9.0"),
    peers=("sdpa_cudnn",),
    cells=tuple(
        (problem, name, Tile(128, 128, 2, 8)) for problem in PROBLEMS for name in ("pinned_maxima", "cluster_multicast")
    ),
    one_group=True,
)
