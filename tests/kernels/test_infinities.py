"""Scores of -inf that are no mask, and NaN: O and LSE are what attention gives, NaN where it is NaN. In each rung of
attention, in every language.

`make test` runs the CUDA kernels and core Triton at head_dim 64, with a causal mask where they take one, as bugs are
planted into the same builds; `make test-full` at every head_dim with and without one; a GPU all twins.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness import build
from harness.catalog import sources, techniques
from harness.catalog.cases import Case
from harness.catalog.entries import Technique, Tile
from harness.operators.attention.api import FLAGSHIP
from harness.operators.attention.problem import Problem
from tests.support import children, infinities

pytestmark = pytest.mark.spread

SMALL, POWERS_OF_TWO = Tile(64, 128), Tile(128, 64, 2, 8)
KERNELS = [one for one in techniques.TECHNIQUES if one.operator == "attention"]


def case(technique: Technique, backend: str, problem: Problem, tile: Tile | None = None) -> Case:
    if not technique.general:
        problem = replace(problem, seq_q=128, seq_kv=384)
    tile = tile or techniques.reference_tile(technique, problem.head_dim)
    if techniques.unsupported(technique, backend, problem, tile):
        tile = POWERS_OF_TWO
    return Case("infinities", technique.name, backend, problem, tile)


def differences(case: Case, on: str) -> dict[str, str]:
    technique = techniques.at(case.technique, case.problem)
    if reason := techniques.unsupported(technique, case.backend, case.problem, case.tile):
        pytest.skip(reason)
    environment = build.environment_of(case, on)
    if environment is None:
        return infinities.differences(case, on)
    return children.call(infinities.differences, case, on, environment=environment)


def of_every_head_dim(one: Technique, backend: str) -> list[Any]:
    """All but one only in `make test-full`."""
    full, causal, *_ = infinities.PROBLEMS
    masked = case(one, backend, causal)
    quick = full if techniques.unsupported(one, backend, masked.problem, masked.tile) else causal
    return [
        pytest.param(
            one,
            problem,
            id=f"{one.name}-{backend}-{problem.slug}",
            marks=[pytest.mark.slow, *([] if problem is quick else [pytest.mark.full])],
        )
        for problem in infinities.PROBLEMS
    ]


@pytest.mark.parametrize(("technique", "problem"), [each for one in KERNELS for each in of_every_head_dim(one, "cuda")])
def test_a_kernel_on_the_cpu_runtime(technique: Technique, problem: Problem) -> None:
    assert differences(case(technique, "cuda", problem), "cpu") == {}


@pytest.mark.parametrize(
    ("technique", "problem"),
    [
        each
        for one in KERNELS
        if not sources.same_program(one.path, "triton")
        for each in of_every_head_dim(one, "triton")
    ],
)
def test_a_twin_in_the_interpreter(technique: Technique, problem: Problem) -> None:
    assert differences(case(technique, "triton", problem, SMALL), "cpu") == {}


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("technique", "backend", "problem"),
    [
        pytest.param(one, backend, problem, id=f"{one.name}-{backend}-{problem.slug}")
        for one in KERNELS
        for backend in techniques.LANGUAGES
        if sources.has_series(backend, one.path) and not sources.same_program(one.path, backend)
        for problem in infinities.PROBLEMS
        if one == FLAGSHIP or problem.head_dim == 128
    ],
)
def test_a_twin_on_a_gpu(technique: Technique, backend: str, problem: Problem) -> None:
    if build.gpu_arch() not in techniques.ladder_of(technique).archs:
        pytest.skip(f"{technique.ladder} is not built for this GPU")
    assert differences(case(technique, backend, problem), "gpu") == {}
