"""Is the flagship right on a thousand problems that nobody chose?

They are drawn at random, always the same ones: any lengths, one of three with as many keys as queries, up to three
batches and twelve heads, every head dimension, number format, mask and storage order, and rows of NaN after every
sequence. Beside the inputs of every gate there are some with scores of -inf. The tiles are those that `tune` chose.
Every kernel is checked and none is timed.
"""

import sys

if __name__ == "__main__":
    sys.path[0] += "/../.."  # import from this checkout

from collections.abc import Sequence
from random import Random
from typing import TypeVar

from harness.catalog.entries import Experiment
from harness.operators.attention.problem import DTYPES, LAYOUTS, Problem
from harness.setup.script import become

SEED = 2026
COUNT = 1000
LONGEST = 2500
"""Queries and keys: of both classes of length that are no minutes of the exact result."""
BATCHES, HEADS_KV, GROUP = 3, 3, 4
"""At most. A group is the heads that share one of K and V."""
HEAD_DIMS = (64, 128, 256)
SQUARE = 1 / 3
"""The share that has as many keys as queries."""

Of = TypeVar("Of")


def problems() -> tuple[Problem, ...]:
    """By Random.random alone: of its methods only that one is promised to give the same in every version of Python."""
    draw = Random(SEED).random

    def up_to(most: int) -> int:
        return 1 + int(most * draw())

    def one_of(choices: Sequence[Of]) -> Of:
        return choices[int(len(choices) * draw())]

    found: dict[Problem, None] = {}
    while len(found) < COUNT:
        batch, heads_kv, group, seq_q = up_to(BATCHES), up_to(HEADS_KV), up_to(GROUP), up_to(LONGEST)
        seq_kv = seq_q if draw() < SQUARE else up_to(LONGEST)
        head_dim, dtype, causal, layout = one_of(HEAD_DIMS), one_of(DTYPES), one_of((False, True)), one_of(LAYOUTS)
        found[Problem(batch, heads_kv * group, heads_kv, seq_q, seq_kv, head_dim, dtype, causal, layout)] = None
    return tuple(found)


EXPERIMENT = Experiment(
    name="random_problems",
    problems=problems(),
    techniques=("flagship",),
    backends=("cuda",),
    peers=(),
    tiles=("best",),
    modes=(),
    distributions=(
        "normal",
        "shifted",
        "outliers",
        "large_logits",
        "constant_rows",
        "negative_scores",
        "hidden_keys",
    ),
    padded=True,
)

if __name__ == "__main__":
    become("run")
