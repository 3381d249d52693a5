"""How far can mma.sync go on Hopper: past FlashAttention-2?

FlashAttention-2 is the mma.sync kernel that most people have. The last rungs of the ampere and tma ladders run against
it (as SDPA flash) and against cuDNN at short, middle and long sequences: 16384 tokens, 2048 columns of heads.
"""

if __name__ == "__main__":
    import _script  # noqa: F401

from itertools import product

from harness.catalog.entries import Experiment
from harness.operators.attention.problem import Problem

EXPERIMENT = Experiment(
    problems=tuple(
        Problem.square(16384 // seq, 2048 // head_dim, seq, head_dim, dtype=dtype, causal=causal)
        for dtype, head_dim, causal, seq in product(("bf16", "fp16"), (128, 64), (False, True), (1024, 4096, 16384))
    ),
    techniques=("lean_instructions", "lazy_rescale", "lazy_consumers"),
    backends=("cuda",),
    tiles=("reference", "best"),
    peers=("sdpa_cudnn", "sdpa_flash"),
)
