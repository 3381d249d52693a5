"""Each schedule of the flagships in core Triton and Gluon keeps its products in flight and its sums in registers."""

from __future__ import annotations

import importlib

import pytest

from harness.build import machine_code
from harness.catalog import techniques
from harness.catalog.entries import Tile
from harness.operators.gemm.problem import Problem
from harness.operators.gemm.schedules import schedule

pytestmark = pytest.mark.spread

FLAGSHIP = techniques.of_qualified("gemm/flagship")
PROBLEM = Problem.square(4096)
FOLDERS = {"triton": "gemm.hopper", "gluon": "gemm.gluon.hopper"}
FIRST = [
    (backend, tile)
    for backend in FOLDERS
    for tile in {schedule(tile): tile for tile in reversed(techniques.grid(FLAGSHIP, backend, PROBLEM))}.values()
]
"""The first tile of each schedule."""


@pytest.mark.parametrize(("backend", "tile"), FIRST, ids=lambda one: getattr(one, "slug", one))
def test_products_stay_in_flight_and_sums_in_registers(backend: str, tile: Tile) -> None:
    """Serialized by ptxas, every product has a wait of its own."""
    twin = importlib.import_module(f"triton_kernels.{FOLDERS[backend]}.flagship").twin
    found = machine_code.read_triton(twin.specialize(PROBLEM, None, tile, "sm_90a").compile())
    census = found["census"]
    assert 0 < census["WARPGROUP.DEPBAR"] < census["HGMMA"]
    assert found["spill_bytes"] <= (128 if schedule(tile) == 4 else 0), "shares are handed on, after the main loop"
