"""The ablations of attention's backward pass: the machine code of each keeps its products in flight. test_rungs.py runs
them, and tests/kernels/test_ablations.py shows that their patches apply and are small."""

from typing import Any

import pytest

from harness import operators
from harness.catalog import techniques
from harness.catalog.cases import Case
from harness.catalog.entries import Ablation
from harness.inspection.survey import MEASURED
from harness.operators.attention_backward.problem import Problem
from tests.support import proven

pytestmark = pytest.mark.spread

ABLATIONS = operators.get("attention_backward").ablations
NAMES = [one.name for one in ABLATIONS]
TIMED = (Problem.square(4, 16, 4096, 128), Problem.square(4, 32, 4096, 64, causal=True))


def main_loop(name: str) -> dict[str, Any]:
    technique, problem = techniques.of_qualified(f"attention_backward/{name}"), TIMED[0]
    tile = techniques.reference_tile(technique, problem.tile_key)
    found: dict[str, Any] = proven.machine_code((Case("inspect", name, "cuda", problem, tile), MEASURED))["main_loop"]
    return found


def test_what_is_under_the_products_is_what_the_ablation_says() -> None:
    """A program whose products are all awaited at once has nothing under them; without a warp that reduces as much
    stays under them as before."""
    under = {name: main_loop(name)["under_products"]["exponentials"] for name in ("overlapped", *NAMES)}
    assert under["overlapped"] == under["without_reducing_warp"] > 0
    assert under["without_dp_in_flight"] == under["consumers_reduce"] == under["triton_program"] == 0
    assert len({main_loop(name)["products"] for name in under}) == 1


@pytest.mark.parametrize("problem", TIMED, ids=lambda problem: problem.slug)
@pytest.mark.parametrize("one", ABLATIONS, ids=lambda one: one.name)
def test_it_compiles_without_serialization_or_local_memory(one: Ablation, problem: Problem) -> None:
    tile = techniques.reference_tile(one, problem.tile_key)
    code = proven.machine_code((Case("inspect", one.name, "cuda", problem, tile), MEASURED))
    assert not code["main_loop"]["serialized"]
    assert code["spill_bytes"] == 0
