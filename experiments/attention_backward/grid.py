"""Is there a faster backward pass of attention on this GPU than the libraries', and where?

The rungs that can be the fastest of their language run against cuDNN and FlashAttention-2 as PyTorch calls them,
flash-attn 4, and FlexAttention: 16384 tokens at both head sizes, full and causal, from 1024 tokens a sequence to
16384, and 64 query heads that share 8 of K and V. Times are from a cool GPU with a cold L2 cache.
"""

import sys

if __name__ == "__main__":
    sys.path[0] += "/../.."  # import from this checkout

from harness.catalog.entries import Experiment
from harness.operators.attention_backward.ladders import hopper
from harness.operators.attention_backward.problem import Problem

RUNGS = tuple(technique.name for technique in hopper.TECHNIQUES)
FASTEST = RUNGS[RUNGS.index("transposed_scores") :]
"""Rungs that can be the fastest of their language: those whose P and dS are operands in registers."""
GROUPED = tuple(Problem(2, 64, 8, seq, seq, 128, causal=causal) for seq in (4096, 8192) for causal in (False, True))
"""64 query heads, eight for each head of K and V."""

EXPERIMENT = Experiment(
    name="grid",
    problems=(*Problem.comparison_grid((1024, 2048, 4096, 8192, 16_384), (64, 128)), *GROUPED),
    techniques=FASTEST,
    backends=("cuda", "triton", "gluon"),
    peers=("sdpa_cudnn", "sdpa_flash", "fa4", "fa4_deterministic", "flex"),
    tiles=("reference", "best"),
    distributions=("shifted", "outliers", "negative_scores"),
)

if __name__ == "__main__":
    from harness.setup.script import become

    become("run")
