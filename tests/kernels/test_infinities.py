"""Scores of -inf that are no mask, and NaN: O and LSE are what attention gives, NaN where it is NaN. In each rung of
attention, in every language.

`make test` runs what no GPU has passed as it is now, CUDA kernels and core Triton, at head_dim 64 with and without a
causal mask, and a few others that the commit chooses. `make test-full` runs them at every head_dim; a GPU all twins.
"""

from dataclasses import replace
from typing import Any

import pytest

from cuda_kernels.cpu_library import Library
from harness import build
from harness.catalog import sources, techniques
from harness.catalog.cases import Case
from harness.catalog.entries import Tile
from harness.operators.attention.api import FLAGSHIP
from harness.operators.attention.problem import Problem
from tests.support import children, chosen, cpu_run, infinities, proven, together

pytestmark = [pytest.mark.spread, pytest.mark.slow]

SMALL, POWERS_OF_TWO = Tile(64, 128), Tile(128, 64, 2, 8)


def case(name: str, backend: str, problem: Problem, tile: Tile | None = None) -> Case:
    technique = techniques.of_qualified(name)
    if not technique.general:
        problem = replace(problem, seq_q=128, seq_kv=384)
    tile = tile or techniques.reference_tile(technique, problem.head_dim)
    if techniques.unsupported(technique, backend, problem, tile):
        tile = POWERS_OF_TWO
    return Case("infinities", name, backend, problem, tile)


def declined(case: Case) -> str | None:
    assert case.tile is not None
    return techniques.unsupported(techniques.of_qualified(case.technique or ""), case.backend, case.problem, case.tile)


def differences(case: Case, on: str) -> dict[str, str]:
    if reason := declined(case):
        pytest.skip(reason)
    environment = build.environment_of(case, on)
    if environment is None:
        return infinities.of_case(case, on)
    return children.call(infinities.of_case, case, on, environment=environment)


def programs(backend: str) -> list[tuple[str, Problem]]:
    """Each on every problem."""
    distinct = [one for one in techniques.TECHNIQUES if not sources.same_program(one.path, backend)]
    return [(one.name, problem) for one in distinct for problem in infinities.PROBLEMS]


def params(backend: str, count: int) -> list[Any]:
    cells = [(name, problem) for name, problem in programs(backend) if not declined(case(name, backend, problem))]
    at_64 = infinities.PROBLEMS[:2]
    return chosen.params(cells, lambda cell: proven.passed(cell[0], backend) or cell[1] not in at_64, count)


@pytest.fixture(scope="module")
def libraries(request: pytest.FixtureRequest) -> dict[Case, Library]:
    cases = [case(one["name"], "cuda", one["problem"]) for one in together.parameters(request)]
    built = together.build([together.Kernel(str(one.technique), one.problem, one.tile, packed=True) for one in cases])
    return dict(zip(cases, built, strict=True))


@pytest.mark.xdist_group("infinities on the CPU runtime")
@pytest.mark.parametrize(("name", "problem"), params("cuda", 12))
def test_a_kernel_on_the_cpu_runtime(name: str, problem: Problem, libraries: dict[Case, Library]) -> None:
    of_rung = case(name, "cuda", problem)
    launch = cpu_run.launcher(libraries[of_rung], of_rung.problem)
    assert infinities.differences(launch, of_rung.problem) == {}


@pytest.mark.parametrize(("name", "problem"), params("triton", 5))
def test_a_twin_in_the_interpreter(name: str, problem: Problem) -> None:
    assert differences(case(name, "triton", problem, SMALL), "cpu") == {}


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("name", "backend", "problem"),
    [
        pytest.param(name, backend, problem, id=f"{name}-{backend}-{problem.slug}")
        for backend in techniques.LANGUAGES
        for name, problem in programs(backend)
        if sources.has_series(backend, techniques.of_qualified(name).path)
        if name == FLAGSHIP.name or problem.head_dim == 128
    ],
)
def test_a_twin_on_a_gpu(name: str, backend: str, problem: Problem) -> None:
    if build.gpu_arch() not in techniques.ladder_of(techniques.of_qualified(name)).archs:
        pytest.skip(f"{name} is not built for this GPU")
    assert differences(case(name, backend, problem), "gpu") == {}
