"""Problems of attention drawn at random: what the experiments random_problems check, of the backward pass too. Standard
library only."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from harness.operators.attention.problem import DTYPES, LAYOUTS, Problem

LONGEST = 2500
"""Queries and keys: of both classes of length that are no minutes of the exact result."""
BATCHES, HEADS_KV, GROUP = 3, 3, 4
"""At most. A group is the heads that share one of K and V."""
HEAD_DIMS = (64, 128, 256)
SQUARE = 1 / 3
"""The share that has as many keys as queries."""

OfProblem = TypeVar("OfProblem", bound=Problem)
Of = TypeVar("Of")


def drawn(kind: type[OfProblem], draw: Callable[[], float], head_dims: Sequence[int] = HEAD_DIMS) -> OfProblem:
    """A problem of this class: any lengths, dtype, mask and storage order. `draw` gives numbers from 0 to 1."""

    def up_to(most: int) -> int:
        return 1 + int(most * draw())

    def one_of(choices: Sequence[Of]) -> Of:
        return choices[int(len(choices) * draw())]

    batch, heads_kv, group, seq_q = up_to(BATCHES), up_to(HEADS_KV), up_to(GROUP), up_to(LONGEST)
    seq_kv = seq_q if draw() < SQUARE else up_to(LONGEST)
    head_dim, dtype, causal, layout = one_of(head_dims), one_of(DTYPES), one_of((False, True)), one_of(LAYOUTS)
    return kind(batch, heads_kv * group, heads_kv, seq_q, seq_kv, head_dim, dtype, causal, layout)
