"""Is core Triton right when it specializes warps, with every number of stages?

The same source is compiled with two and with three stages, by four versions of Triton. Beside it runs the same
kernel with the unused barriers invalidated (a hatch). Each is checked, not timed: a kernel that compiles without a
warning may still be wrong.
"""

if __name__ == "__main__":
    import _script  # noqa: F401

from harness.catalog.entries import Experiment, Tile
from harness.operators.attention.problem import Problem

PROBLEMS = tuple(
    Problem.square(1, 16, 1024, head_dim, dtype=dtype) for head_dim in (64, 128) for dtype in ("fp16", "bf16")
)

EXPERIMENT = Experiment(
    problems=PROBLEMS,
    backends=("triton", "triton@3.7.1", "triton@3.8.0", "triton@3.9.0", "hatch"),
    peers=("sdpa_cudnn",),
    modes=(),
    cells=tuple(
        (problem, "producer_consumer", Tile(128, block_n, stages, 8))
        for problem in PROBLEMS
        for block_n in (64, 128)
        for stages in (2, 3)
    ),
)
