"""Each schedule of the flagships in core Triton and Gluon keeps its products in flight and its sums in registers."""

import pytest

from harness.catalog import techniques
from harness.catalog.cases import Case
from harness.catalog.entries import Tile
from harness.inspection.survey import MEASURED
from harness.operators.gemm.problem import Problem
from harness.operators.gemm.schedules import schedule
from tests.support import proven

pytestmark = pytest.mark.spread

FLAGSHIP = techniques.of_qualified("gemm/flagship")
PROBLEM = Problem.square(4096)
FIRST = [
    (backend, tile)
    for backend in ("triton", "gluon")
    for tile in {schedule(tile): tile for tile in reversed(techniques.grid(FLAGSHIP, backend, PROBLEM))}.values()
]
"""The first tile of each schedule."""


@pytest.mark.parametrize(("backend", "tile"), FIRST, ids=lambda one: getattr(one, "slug", one))
def test_products_stay_in_flight_and_sums_in_registers(backend: str, tile: Tile) -> None:
    """Serialized by ptxas, every product has a wait of its own."""
    found = proven.machine_code((Case("inspect", FLAGSHIP.name, backend, PROBLEM, tile), MEASURED))
    census = found["census"]
    assert 0 < census["WARPGROUP.DEPBAR"] < census["HGMMA"]
    assert found["spill_bytes"] <= (128 if schedule(tile) == 4 else 0), "shares are handed on, after the main loop"
