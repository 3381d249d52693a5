"""Every rung and ablation of attention's backward pass is right on a CPU, and what a rung states of its bits holds on a
GPU.

`make test` runs all of them on lengths that no tile divides; on whole tiles those that no GPU has passed as they are
now, and five of the others, by the commit.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from cuda_kernels.cpu_library import Library
from harness import build, operators
from harness.catalog import experiments, sources, techniques
from harness.catalog.cases import Case
from harness.catalog.entries import Technique
from harness.measure import arenas, gate
from harness.operators.attention_backward.problem import Problem
from tests.support import chosen, cpu_run, proven, together

BACKWARD = operators.get("attention_backward")
CAUSAL = Problem(1, 2, 1, 456, 200, 64, "fp16", True, "bshd")
"""Grouped heads, no whole tiles, rows that see no key, and four steps and more, so that rings and buffers wrap."""
WIDE = Problem(1, 1, 1, 128, 256, 128)
LARGE = Problem.square(1, 4, 4096, 64)
"""32 tiles of keys add to each row of dQ."""
DISTRIBUTIONS = ("shifted", "negative_scores")
FULL = Problem(1, 2, 1, 200, 136, 128, "fp16", layout="bshd")
"""As CAUSAL, for what has no mask."""


def takes(rung: Technique, problem: Problem) -> bool:
    tile = techniques.reference_tile(rung, problem.tile_key)
    return techniques.unsupported(rung, "cuda", problem, tile) is None


RUNGS = (*BACKWARD.techniques, *BACKWARD.ablations)
PROBLEMS = [(one.name, problem) for problem in (CAUSAL, WIDE) for one in RUNGS if takes(one, problem)]
PROBLEMS += [(one.name, FULL) for one in RUNGS if not takes(one, CAUSAL)]


libraries = pytest.fixture(scope="module")(together.asked)


def is_right(
    library: Library, problem: Problem, distributions: tuple[str, ...] = DISTRIBUTIONS, seeds: Sequence[int] = range(4)
) -> None:
    """`seeds` of the scheduler take turns."""
    launch = cpu_run.launcher(library, problem, *seeds)
    options: dict[str, Any] = {"device": "cpu", "repeats": 1, "padded": True, "may_vary": True}
    found = gate.gate(launch, problem, distributions=distributions, **options)
    assert found.passed, (problem.slug, found.reason)


def is_gated(one: tuple[str, Problem]) -> bool:
    """Has a GPU computed such a problem? Its lengths were whole tiles."""
    return one[1] == WIDE and proven.passed(f"attention_backward/{one[0]}")


@pytest.mark.parametrize(("name", "problem"), chosen.params(PROBLEMS, is_gated, 5))
def test_a_cuda_twin_is_right_on_a_cpu(name: str, problem: Problem, libraries: together.Libraries) -> None:
    is_right(libraries[name, problem], problem)


def test_the_first_random_problems_are_right_on_a_cpu() -> None:
    """Their lengths cut to what a CPU takes; one dtype, head_dim and mask, which are a build."""
    experiment = experiments.load("attention_backward/random_problems")
    of_a_build = [one for one in experiment.problems if (one.head_dim, one.dtype, one.causal) == (64, "fp16", True)]
    library = cpu_run.build(experiment.techniques[0], of_a_build[0])
    for number, one in enumerate(of_a_build[:8]):
        problem = replace(one, batch=1, seq_q=1 + one.seq_q % 200, seq_kv=1 + one.seq_kv % 200)
        is_right(library, problem, ("negative_scores",), (number,))


SHARED = (Problem(1, 1, 1, 1024, 128, 64, "fp16"), Problem(1, 2, 1, 1000, 200, 64, "fp16", True, "bshd"))
"""Fewer tiles of keys than multiprocessors, and enough queries for two blocks or more to share one."""


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        *product(("flagship", "ordered_halves"), SHARED),
        ("eighty_rows", replace(SHARED[0], head_dim=128)),
    ],
)
def test_shared_tiles_of_keys_are_right_on_a_cpu(name: str, problem: Problem, libraries: together.Libraries) -> None:
    is_right(libraries[name, problem], problem, ("shifted",))


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
