"""Every rung of attention's backward pass is right on a CPU, and what it states of its bits holds on a GPU."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness import build, operators
from harness.catalog import experiments, sources, techniques
from harness.catalog.cases import Case
from harness.catalog.entries import Technique
from harness.measure import arenas, gate
from harness.operators.attention_backward.problem import Problem
from tests.support.gradients import launcher, library

pytestmark = pytest.mark.spread

BACKWARD = operators.get("attention_backward")
CAUSAL = Problem(1, 2, 1, 200, 136, 64, "fp16", True, "bshd")
"""Grouped heads, no whole tiles, and rows that see no key."""
WIDE = Problem(1, 1, 1, 128, 256, 128)
LARGE = Problem.square(1, 4, 4096, 64)
"""32 tiles of keys add to each row of dQ."""


@pytest.mark.parametrize("problem", [CAUSAL, WIDE], ids=lambda problem: problem.slug)
@pytest.mark.parametrize("technique", BACKWARD.techniques, ids=lambda rung: rung.name)
def test_a_cuda_twin_is_right_on_a_cpu(technique: Technique, problem: Problem) -> None:
    loaded = library(technique.name, problem)
    for seed in (0, 3):
        options: dict[str, Any] = {"distributions": ("shifted", "negative_scores"), "device": "cpu", "repeats": 1}
        found = gate.gate(launcher(loaded, problem, seed), problem, padded=True, may_vary=True, **options)
        assert found.passed, (seed, found.reason)


def test_the_first_random_problems_are_right_on_a_cpu() -> None:
    """Their lengths cut to what a CPU takes; one dtype, head_dim and mask, which are a build."""
    experiment = experiments.load("attention_backward/random_problems")
    of_a_build = [one for one in experiment.problems if (one.head_dim, one.dtype, one.causal) == (64, "fp16", True)]
    for number, one in enumerate(of_a_build[:8]):
        problem = replace(one, batch=1, seq_q=1 + one.seq_q % 200, seq_kv=1 + one.seq_kv % 200)
        loaded = library(experiment.techniques[0], problem)
        options: dict[str, Any] = {"distributions": ("negative_scores",), "device": "cpu", "repeats": 1}
        found = gate.gate(launcher(loaded, problem, number), problem, padded=True, may_vary=True, **options)
        assert found.passed, (problem.slug, found.reason)


SHARED = (Problem(1, 1, 1, 1024, 128, 64, "fp16"), Problem(1, 2, 1, 1000, 200, 64, "fp16", True, "bshd"))
"""Fewer tiles of keys than multiprocessors, and enough queries for two blocks or more to share one."""


@pytest.mark.parametrize("problem", SHARED, ids=lambda problem: problem.slug)
def test_shared_tiles_of_keys_are_right_on_a_cpu(problem: Problem) -> None:
    loaded = library("flagship", problem)
    options: dict[str, Any] = {"distributions": ("shifted",), "device": "cpu", "repeats": 1, "may_vary": True}
    for seed in (0, 3):
        found = gate.gate(launcher(loaded, problem, seed), problem, padded=True, **options)
        assert found.passed, (seed, found.reason)


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("technique", "backend"),
    [
        (rung, backend)
        for rung in BACKWARD.techniques
        for backend in sources.series(("cuda", "triton", "gluon"), rung.path)
    ],
    ids=lambda one: one if isinstance(one, str) else one.name,
)
def test_its_bits_repeat_or_vary_as_it_states(technique: Technique, backend: str) -> None:
    tile = techniques.reference_tile(technique, LARGE.tile_key)
    case = Case("tests", technique.name, backend, LARGE, tile)
    if reason := techniques.unsupported(technique, backend, LARGE, tile):
        pytest.skip(reason)
    if backend == "triton" and build.environment_of(case):
        pytest.skip("this process lets core Triton use wgmma")
    inputs, outputs = arenas.make(LARGE, "normal", 0, "cuda"), arenas.make_outputs(LARGE, "cuda")
    call = build.load(case).bind({**inputs.tensors, **outputs.tensors}, inputs.scalars)
    first = {name: tensor.clone() for name, tensor in call().items()}
    repeats = [all(arenas.same_bits(first[name], tensor) for name, tensor in call().items()) for _ in range(50)]
    assert all(repeats) is technique.repeats
