"""Does a newer Triton, or TLX, come closer to CUDA?

The fastest kernels of core Triton and of Gluon are compiled by the installed Triton and by a newer one; TLX has the
schedule of Gluon's kernel. All are at the tile that tune chose with the installed Triton (Gluon's for TLX), or at one
that it chose with that version. Kernels of other Tritons are launched from cubins. One kernel of the installed Triton
is too (gluon@3.6.0), which separates the effect of the launch from that of the compiler.
"""

if __name__ == "__main__":
    import _script  # noqa: F401

from harness.catalog.entries import Experiment
from harness.operators.attention.problem import Problem

EXPERIMENT = Experiment(
    problems=Problem.comparison_grid((4096, 8192), (64, 128)),
    techniques=("flagship",),
    backends=("cuda", "triton", "triton@3.9.0", "gluon", "gluon@3.6.0", "gluon@3.9.0", "tlx@3.8.0"),
    peers=("sdpa_cudnn",),
    tiles=("best",),
    one_group=True,
)
