"""The flagship on problems that nobody chose: a few on this CPU, a thousand on a Hopper GPU; and every rung of its
ladder on one ragged problem there. What a run draws depends on a seed that it prints."""

import os
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from experiments.attention.random_problems import EXPERIMENT
from harness import flash_attention
from harness.build import load, prebuild
from harness.catalog import techniques
from harness.catalog.cases import Case, declined
from harness.measure import gate as gates
from harness.operators.attention import api as plain
from harness.operators.attention import inputs, numerics
from harness.operators.attention.drawn import BATCHES, GROUP, HEAD_DIMS, HEADS_KV, LONGEST
from harness.operators.attention.inputs import DISTRIBUTIONS
from harness.operators.attention.problem import DTYPES, LAYOUTS, Problem
from tests.support import cpu_run
from tests.support.launches import gate

ON_A_GPU, ON_A_CPU = 1000, 12
RAGGED = Problem(3, 48, 16, 333, 571, 128, "bf16", True, "bshd")
"""With so many heads that a persistent block takes several tiles."""
RAGGED_FULL = replace(RAGGED, causal=False)
"""For a rung that declines causal masks."""
RUNGS = [rung.name for rung in techniques.TECHNIQUES if rung.ladder == "hopper"]

SEED = int(os.environ.get("RANDOM_PROBLEMS") or random.SystemRandom().randrange(2**32))
"""Of what Hypothesis draws; RANDOM_PROBLEMS=<the seed that a run printed> draws the same again."""


def grouped(batch: int, heads_kv: int, group: int, seq_q: int, seq_kv: int | None, *rest: Any) -> Problem:
    return Problem(batch, heads_kv * group, heads_kv, seq_q, seq_kv or seq_q, *rest)


def try_problems(
    count: int,
    check: Callable[[Problem, str, int], None],
    *,
    head_dims: tuple[int, ...] = HEAD_DIMS,
    dtypes: tuple[str, ...] = DTYPES,
    longest: int,
) -> str:
    """Calls check(problem, distribution, seed of the inputs) `count` times and returns what to print: how to draw the
    same again. Up to `longest` queries and keys, as many of both in one of three, up to 16 queries in another, else the
    ranges of the experiment random_problems. Raises what `check` raises of the smallest problem that fails, with a note
    of the same."""
    from hypothesis import HealthCheck, Phase, given, seed, settings  # a second, which other tests need not wait
    from hypothesis import strategies as st

    told = f"{count} random problems, RANDOM_PROBLEMS={SEED}"
    lengths = st.integers(1, longest)
    problems = st.builds(
        grouped,
        st.integers(1, BATCHES),
        st.integers(1, HEADS_KV),
        st.integers(1, GROUP),
        st.one_of(lengths, lengths, st.integers(1, 16)),
        st.one_of(st.none(), lengths, lengths),
        st.sampled_from(head_dims),
        st.sampled_from(dtypes),
        st.booleans(),
        st.sampled_from(LAYOUTS),
    )
    tried = given(problems, st.sampled_from((*DISTRIBUTIONS, "hidden_keys")), st.integers(0, 2**16))(check)
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


def test_random_problems_on_a_cpu(capsys: pytest.CaptureFixture[str]) -> None:
    """One dtype and head_dim, each a build; what is drawn as a seed orders warps and lanes."""

    def check(problem: Problem, distribution: str, seed: int) -> None:
        found = cpu_run.run("flagship", problem, seed=seed, distribution=distribution)
        assert found.diagnosis == ""
        verdict = numerics.judge(found.o, found.lse, gates.expect(problem, distribution, 0, "cpu"))
        assert verdict.passed, f"{problem.slug}, {verdict.check}: {verdict.reason}"

    said = try_problems(ON_A_CPU, check, head_dims=(64,), dtypes=("fp16",), longest=200)
    with capsys.disabled():
        print(f" {said} ", end="")


def test_what_fails_says_its_seed() -> None:

    def check(problem: Problem, distribution: str, seed: int) -> None:
        assert problem.seq_kv <= 64

    with pytest.raises(AssertionError) as raised:
        try_problems(ON_A_CPU, check, longest=200)
    (note,) = [note for note in raised.value.__notes__ if "RANDOM_PROBLEMS" in note]
    assert note.startswith(f"{ON_A_CPU} random problems, RANDOM_PROBLEMS=")


@pytest.mark.gpu(9)
def test_a_thousand_random_problems(capsys: pytest.CaptureFixture[str]) -> None:
    """By the plain function, between NaN, two kinds of values each and the same bits when launched again. A head of K
    and V that all queries share is expanded; each is also asked about no keys."""
    properties = torch.cuda.get_device_properties(0)
    prebuild({plain.case_of(problem, properties) for problem in EXPERIMENT.problems})

    def launch(q: Any, k: Any, v: Any, o: Any, lse: Any, *, scale: float, causal: bool) -> None:
        if k.shape[1] == 1:
            k, v = (one.expand(-1, q.shape[1], -1, -1) for one in (k, v))
        nothing = flash_attention(q, k[:, :, :0], v[:, :, :0], causal=causal, scale=scale)
        assert not nothing[0].any()
        assert (nothing[1] == -torch.inf).all()
        found = flash_attention(q, k, v, causal=causal, scale=scale)
        o.copy_(found[0]), lse.copy_(found[1])

    def check(problem: Problem, distribution: str, seed: int) -> None:
        verdict = gate(
            launch, problem, distributions=(distribution,), seeds=(seed,), device="cuda", repeats=2, padded=True
        )
        assert verdict.passed, f"{problem.slug}, {verdict.check}: {verdict.reason}"

    said = try_problems(ON_A_GPU, check, longest=LONGEST)
    with capsys.disabled():
        print(f" {said} ", end="")


def test_the_ragged_problem_has_several_tiles_for_each_block_of_an_h200() -> None:
    for name in RUNGS:
        tile = techniques.reference_tile(techniques.of_qualified(name), RAGGED.head_dim)
        assert RAGGED.query_tiles(tile) > 2 * 132, name
        assert RAGGED.seq_q % tile.block_m


@pytest.fixture(scope="module")
def rungs() -> dict[str, Case]:
    """Built ahead, all at once."""
    cases = {}
    for name in RUNGS:
        tile = techniques.reference_tile(techniques.of_qualified(name), RAGGED.head_dim)
        ragged = (Case("test", name, "cuda", problem, tile) for problem in (RAGGED, RAGGED_FULL))
        cases[name] = next(case for case in ragged if not declined(case))
    prebuild(cases.values())
    return cases


@pytest.mark.gpu(9)
@pytest.mark.parametrize("name", RUNGS)
def test_a_rung_on_a_ragged_problem(name: str, rungs: dict[str, Case]) -> None:
    """Outliers among its inputs, NaN around them, ten launches with the same bits."""
    launch = load(rungs[name], "gpu").launch
    verdict = gates.gate(
        launch, rungs[name].problem, distributions=tuple(inputs.DISTRIBUTIONS), device="cuda", repeats=10, padded=True
    )
    assert verdict.passed, f"{verdict.check}: {verdict.reason}"
