"""What does each step buy, in each language?

Every rung of every ladder runs in CUDA and in Triton, and in Gluon where Gluon can express what core Triton cannot: at
its reference tile and at the tile tuned for it, on long self-attention that fills the GPU, with the two head dimensions
that most models use, with and without a causal mask. The libraries show how fast attention can be.
"""

if __name__ == "__main__":
    import _script  # noqa: F401

from harness.catalog.entries import Experiment
from harness.catalog.techniques import SERIES, TECHNIQUES
from harness.operators.attention.problem import Problem

EXPERIMENT = Experiment(
    problems=tuple(
        Problem.square(4, 16, 4096, head_dim, causal=causal) for head_dim in (128, 64) for causal in (False, True)
    ),
    techniques=tuple(technique.name for technique in TECHNIQUES),
    backends=SERIES,
    peers=("sdpa_cudnn", "sdpa_flash", "flex", "fa2", "fa3", "fa4"),
    tiles=("reference", "best"),
)
