"""The flagship's tiles in CUDA name a kernel of the ladder, and take what it takes."""

from __future__ import annotations

import re

import pytest

from harness.catalog import sources, techniques
from harness.catalog.entries import Tile
from harness.operators.gemm.limits import SCHEDULES, schedule
from harness.operators.gemm.problem import Problem

FLAGSHIP = techniques.of_qualified("gemm/flagship")
HEADER = (sources.ROOT / "cuda_kernels/gemm/schedules.cuh").read_text()
RUNGS = {
    int(number): name for number, name in re.findall(r"SCHEDULE == (\d+)\n#include <gemm/(?:hopper/)?(\w+)\.", HEADER)
}


LIKE = {"staggered": "square_waves"}
"""Rungs that take the tiles of schedules that are no rung."""


def said(tile: str, problem: Problem = Problem.square(4096), name: str = "flagship") -> str:  # noqa: B008
    return techniques.unsupported(techniques.of_qualified(f"gemm/{name}"), "cuda", problem, Tile.parse(tile)) or ""


def test_the_header_and_the_limits_number_the_same_schedules() -> None:
    assert set(RUNGS) == set(SCHEDULES) - {0}


@pytest.mark.parametrize("number", sorted(RUNGS))
def test_a_schedule_takes_the_tiles_of_its_rung(number: int) -> None:
    tiles = {tile.slug.partition("-schedule")[0] for tile in techniques.grid(FLAGSHIP, "cuda", Problem.square(4096))}
    tiles |= {"64x64-s4-w8", "16x64-s4-w4", "128x256-s5-w8", "192x64-s2-w12", "128x256-s2-w4"}
    for tile in tiles:
        assert bool(said(f"{tile}-schedule{number}")) == bool(
            said(tile, name=LIKE.get(RUNGS[number], RUNGS[number]))
        ), tile


def test_every_schedule_is_tuned() -> None:
    grid = techniques.grid(FLAGSHIP, "cuda", Problem.square(4096))
    assert {schedule(tile) for tile in grid} == set(SCHEDULES)


def test_an_unknown_schedule_and_a_tile_that_the_host_cannot_choose_are_declined() -> None:
    assert "schedule must be one of" in said("128x256-s4-w8-schedule99")
    assert "names no schedule" in said("64x256-s4-w4")
    assert not said("64x256-s4-w4-schedule5")
