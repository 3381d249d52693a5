"""Are kernels right while other processes use the same GPU?

The GPU then stops a kernel in its middle, lets another process work, and goes on. A kernel that is right alone may be
wrong afterwards. The problems take longer than the slice of time that a process gets.
"""

if __name__ == "__main__":
    import _script  # noqa: F401

from harness.catalog.entries import Experiment
from harness.operators.attention.problem import Problem

EXPERIMENT = Experiment(
    problems=(Problem.square(1, 32, 16384, 64), Problem.square(1, 16, 16384, 128)),
    techniques=("tma_loads", "warp_specialized", "wgmma", "producer_consumer", "persistent", "flagship"),
    backends=("cuda", "triton", "gluon", "hatch"),
    peers=("sdpa_cudnn",),
    modes=(),
    sharing=3,
)
