"""Are all three gradients right: for grouped heads, any lengths, rows that see no key, and a score of -120?

The problems are small; every kernel is checked and none is timed. Without a GPU the CUDA twins run thread by thread and
the Triton twins run in Triton's interpreter, on problems of fp16. One more is of bf16: the Triton twins decline it.
"""

if __name__ == "__main__":
    import _script  # noqa: F401

from itertools import product

from harness.catalog.entries import Experiment
from harness.catalog.techniques import SERIES
from harness.operators.attention_backward.ladders import hopper
from harness.operators.attention_backward.problem import ALL_PEERS, Problem

TECHNIQUES = tuple(technique.name for technique in hopper.TECHNIQUES)

EXPERIMENT = Experiment(
    problems=(
        *(
            Problem(2, 4, heads_kv, 1024, 1024, head_dim, dtype, causal)
            for dtype, head_dim, causal, heads_kv in product(("fp16", "bf16"), (64, 128), (False, True), (4, 1))
        ),
        *(
            Problem(2, 4, 2, seq_q, seq_kv, 64, dtype, causal, "bshd")
            for dtype, causal in product(("fp16", "bf16"), (False, True))
            for seq_q, seq_kv in ((1000, 1000), (200, 136), (1, 641), (641, 65))
        ),
        Problem(1, 2, 1, 512, 16_384, 128, "bf16"),  # many tiles of keys: sums of dQ rounded on the way add up
        Problem(1, 2, 1, 16_384, 512, 128, "bf16"),  # many tiles of queries
    ),
    techniques=TECHNIQUES,
    backends=SERIES,
    peers=ALL_PEERS,
    modes=(),
    padded=True,
)

WITHOUT_GPU = EXPERIMENT.without_gpu(
    ("shifted", "constant_rows", "negative_scores"),
    Problem(1, 2, 1, 256, 256, 64, "fp16", True),  # two query heads share one of K and V
    Problem(1, 1, 1, 128, 256, 128, "fp16"),
    Problem(1, 2, 2, 200, 136, 64, "fp16", True),  # no tile divides it; the first rows see no key
    Problem(1, 1, 1, 65, 129, 64, "fp16"),
    Problem(1, 1, 1, 128, 128, 64, "bf16"),  # the other format
)
