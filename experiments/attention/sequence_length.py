"""At what sequence length does each kernel reach its speed?

The number of tokens and the model width stay the same (batch * seq = 16384, heads * head_dim = 2048), so a longer
sequence means more work per query and fewer, longer rows of blocks. Four rungs and the libraries are timed.
"""

if __name__ == "__main__":
    import _script  # noqa: F401

from harness.catalog.entries import Experiment
from harness.operators.attention.problem import Problem

TOKENS = 16_384
HEADS = 16

EXPERIMENT = Experiment(
    problems=tuple(
        Problem.square(TOKENS // seq, HEADS, seq, 2048 // HEADS) for seq in (512, 1024, 2048, 4096, 8192, 16_384)
    ),
    techniques=("cp_async_pipeline", "lean_instructions", "lazy_consumers", "lazy_scores_in_flight"),
    tiles=("reference", "best"),
    peers=("sdpa_cudnn", "sdpa_flash", "flex", "fa4"),
)
