"""The flagship's tiles name a kernel of the ladder, and take what it takes, in each language."""

import importlib
import re

import pytest

from harness.catalog import sources, techniques
from harness.catalog.entries import Tile
from harness.operators.gemm.problem import Problem
from harness.operators.gemm.schedules import NAMES, SCHEDULES, SCHEDULES_IN, schedule

FLAGSHIP = techniques.of_qualified("gemm/flagship")
HEADER = (sources.ROOT / "cuda_kernels/gemm/schedules.cuh").read_text()
RUNGS = {
    int(number): name for number, name in re.findall(r"SCHEDULE == (\d+)\n#include <gemm/(?:hopper/)?(\w+)\.", HEADER)
}


TWINS = {
    "triton": importlib.import_module("triton_kernels.gemm.hopper.flagship"),
    "gluon": importlib.import_module("triton_kernels.gemm.gluon.hopper.flagship"),
}


def said(tile: str, name: str = "flagship", backend: str = "cuda") -> str:
    rung = techniques.of_qualified(f"gemm/{name}")
    return techniques.unsupported(rung, backend, Problem.square(4096), Tile.parse(tile)) or ""


def test_the_header_and_the_limits_number_the_same_schedules() -> None:
    assert set(RUNGS) == set(SCHEDULES_IN["cuda"]) - {0}
    assert {number: NAMES[number] for number in RUNGS} == RUNGS


def test_the_flagships_in_triton_have_the_kernels_that_the_limits_number() -> None:
    for backend, module in TWINS.items():
        assert {0, *module.SCHEDULES} == set(SCHEDULES_IN[backend]), backend
        for number, twin in module.SCHEDULES.items():
            assert twin.kernel.__name__ == NAMES[number], backend


@pytest.mark.parametrize("backend", ["cuda", *TWINS])
@pytest.mark.parametrize("number", [number for number in sorted(SCHEDULES) if number not in (0, 12)])
def test_a_schedule_takes_the_tiles_of_its_rung(number: int, backend: str) -> None:
    if number not in SCHEDULES_IN[backend]:
        assert "schedule must be one of" in said(f"128x128-s4-w8-schedule{number}", backend=backend)
        return
    tiles = {tile.slug.partition("-schedule")[0] for tile in techniques.grid(FLAGSHIP, backend, Problem.square(4096))}
    tiles |= {"64x64-s4-w8", "16x64-s4-w4", "128x256-s5-w8", "192x64-s2-w12", "128x192-s2-w8", "128x256-s2-w4"}
    for tile in tiles:
        ours, theirs = said(f"{tile}-schedule{number}", backend=backend), said(tile, NAMES[number], backend)
        assert bool(ours) == bool(theirs), tile


@pytest.mark.parametrize("backend", ["cuda", *TWINS])
def test_every_schedule_is_tuned(backend: str) -> None:
    grid = techniques.grid(FLAGSHIP, backend, Problem.square(4096))
    assert {schedule(tile) for tile in grid} == set(SCHEDULES_IN[backend])
    assert set(FLAGSHIP.grid[backend]) <= set(grid), "a tile of the grid is declined"


def test_turns_take_one_tile_of_two_tensors() -> None:
    assert not said("128x192-s4-w8-schedule12", backend="gluon")
    for tile in ("128x192-s5-w8", "128x256-s3-w8", "64x192-s4-w8", "128x192-s4-w4"):
        assert said(f"{tile}-schedule12", backend="gluon")


def test_an_unknown_schedule_and_a_tile_that_the_host_cannot_choose_are_declined() -> None:
    assert "schedule must be one of" in said("128x256-s4-w8-schedule99")
    assert "names no schedule" in said("64x256-s4-w4")
    assert not said("64x256-s4-w4-schedule5")
