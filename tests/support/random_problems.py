"""Problems that nobody chose, for Hypothesis: any lengths, heads, masks and layouts, and any inputs of the gate."""

from __future__ import annotations

import os
import random
from collections.abc import Callable

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from experiments.attention.random_problems import BATCHES, GROUP, HEAD_DIMS, HEADS_KV
from harness.operators.attention.inputs import DISTRIBUTIONS
from harness.operators.attention.problem import DTYPES, LAYOUTS, Problem

SEED = int(os.environ.get("RANDOM_PROBLEMS") or random.SystemRandom().randrange(2**32))
"""Of what Hypothesis draws; RANDOM_PROBLEMS=<the seed that a run printed> draws the same again."""


@st.composite
def problems(draw: st.DrawFn, *, head_dims: tuple[int, ...], dtypes: tuple[str, ...], longest: int) -> Problem:
    """Up to `longest` queries and keys, else the ranges of the experiment random_problems; one of three has as many
    keys as queries."""
    seq_q, heads_kv = draw(st.integers(1, longest)), draw(st.integers(1, HEADS_KV))
    return Problem(
        draw(st.integers(1, BATCHES)),
        heads_kv * draw(st.integers(1, GROUP)),
        heads_kv,
        seq_q,
        draw(st.one_of(st.just(seq_q), st.integers(1, longest), st.integers(1, longest))),
        draw(st.sampled_from(head_dims)),
        draw(st.sampled_from(dtypes)),
        draw(st.booleans()),
        draw(st.sampled_from(LAYOUTS)),
    )


def try_problems(
    count: int,
    check: Callable[[Problem, str, int], None],
    *,
    head_dims: tuple[int, ...] = HEAD_DIMS,
    dtypes: tuple[str, ...] = DTYPES,
    longest: int,
) -> str:
    """Calls check(problem, distribution, seed of the inputs) `count` times and returns what to print: how to draw the
    same again. Raises what `check` raises of the smallest problem that fails, with a note of the same."""
    told = f"{count} random problems, RANDOM_PROBLEMS={SEED}"
    tried = given(
        problems(head_dims=head_dims, dtypes=dtypes, longest=longest),
        st.sampled_from(tuple(DISTRIBUTIONS)),
        st.integers(0, 2**16),
    )(check)
    limits = settings(
        max_examples=count,
        deadline=None,  # the first of a kind compiles
        database=None,
        print_blob=False,  # the seed says it
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    try:
        seed(SEED)(limits(tried))()
    except Exception as error:
        error.add_note(told)
        raise
    return told
