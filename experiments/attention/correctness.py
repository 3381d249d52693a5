"""Is every twin right: for every dtype, head dimension, mask and layout, when lengths differ, when heads share keys?

The problems are small; every kernel is checked and none is timed. Without a GPU the CUDA twins run thread by thread and
the Triton twins run in Triton's interpreter, on problems of fp16. One more is of bf16: the Triton twins decline it,
because the interpreter silently computes bf16 wrongly.
"""

import sys

if __name__ == "__main__":
    sys.path[0] += "/../.."  # import from this checkout
    from harness.setup.script import become

    become("check")

from itertools import product

from harness.catalog.entries import Experiment
from harness.catalog.techniques import SERIES, TECHNIQUES
from harness.operators.attention.problem import Problem

EXPERIMENT = Experiment(
    problems=tuple(
        Problem(2, heads, heads_kv, seq_q, seq_kv, head_dim, dtype, causal, layout)
        for dtype, head_dim, causal, layout in product(("fp16", "bf16"), (64, 128), (False, True), ("bhsd", "bshd"))
        for heads, heads_kv, seq_q, seq_kv in ((4, 4, 512, 512), (4, 2, 256, 512), (4, 1, 512, 256))
    ),
    techniques=tuple(technique.name for technique in TECHNIQUES),
    backends=SERIES,
    peers=("sdpa_cudnn", "sdpa_flash", "sdpa_math"),
    modes=(),
    padded=True,
)

WITHOUT_GPU = EXPERIMENT.without_gpu(
    ("negative_scores", "large_logits", "outliers"),
    Problem(2, 6, 2, 128, 128, 64, "fp16", False, "bhsd"),  # groups of three
    Problem(1, 2, 1, 128, 384, 128, "fp16", True, "bshd"),  # rings of two and three buffers wrap
    Problem(1, 2, 2, 256, 128, 128, "fp16", True, "bshd"),  # rows that see no key; no groups
    Problem(1, 2, 1, 200, 150, 128, "fp16", True, "bshd"),  # lengths that no tile divides
    Problem(1, 1, 1, 128, 128, 64, "bf16", False, "bhsd"),  # the other format, as small as tiles allow
)
