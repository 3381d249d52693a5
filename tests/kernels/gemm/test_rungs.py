"""Every rung of the matrix products is right on a CPU in both languages, and compiles to its instructions without
spills."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness import build, operators
from harness.build.cuda import workspace_bytes
from harness.catalog import sources, techniques
from harness.catalog.cases import Case
from harness.catalog.entries import Technique
from harness.inspection import survey
from harness.measure import gate
from harness.operators.gemm.problem import Problem
from harness.setup import doctor
from tests.support import children
from tests.support.cpu_run import copied
from tests.support.products import launcher, library

pytestmark = pytest.mark.spread

RUNGS = operators.get("gemm").techniques
WHOLE = Problem(128, 256, 448, "fp16")
"""Seven steps of the main loop: a ring of five buffers wraps."""
SEVERAL = Problem(384, 256, 64, "fp16", "gelu", "fp32")
"""Several tiles, fewer rows of them than a group of the grid order has."""
RAGGED = Problem(200, 264, 136, "bf16", "bias")
ONE_STEP = Problem(1, 264, 8, "fp16")
IN_TURN = (0, 3)
"""Seeds of the scheduler."""
SLOW = ("scalar",)
"""Rungs of which the interpreter does a small problem alone."""


def case(technique: Technique, backend: str, problem: Problem) -> Case:
    tile = techniques.reference_tile(technique, problem.tile_key)
    return Case("tests", f"gemm/{technique.name}", backend, problem, tile)


def programs(backend: str) -> list[Technique]:
    """Rungs that are no other rung's program."""
    return [one for one in RUNGS if sources.same_program(one.path, backend) is None]


@pytest.mark.parametrize("technique", RUNGS, ids=lambda rung: rung.name)
def test_a_cuda_twin_is_right_on_a_cpu(technique: Technique) -> None:
    for problem in (WHOLE, SEVERAL, *((RAGGED, ONE_STEP) if technique.general else ())):
        loaded = library(technique.name, problem)
        for seed in IN_TURN:
            options: dict[str, Any] = {"distributions": ("cancellation",), "device": "cpu", "repeats": 1}
            found = gate.gate(launcher(loaded, problem, seed), problem, padded=True, **options)
            assert found.passed, (problem.slug, seed, found.reason)


PLANS = {
    "rows_16, 16, 10, 1, true": Problem(9, 520, 1096, "fp16", "bias"),
    "rows_64, 64, 8, 1, true": Problem(40, 520, 1096, "fp16", "bias"),
    "columns_64, 64, 8, 2": Problem(264, 200, 584, "fp16", "gelu", "fp32"),
    "flagship, 256, 4, 1": Problem(264, 136, 584, "bf16", "bias"),
    "pairs_256, 256, 4, 2": Problem(136, 520, 1096, "fp16", "bias"),
    "columns_192, 192, 5, 2": Problem(264, 584, 584, "fp16"),
    "columns_128, 128, 6, 2": Problem(264, 392, 584, "fp16", "plain", "fp32"),
}
"""Tiles of the flagship, and problems that none divides; those that share steps have an odd number of tiles."""


@pytest.mark.parametrize("tile", PLANS)
def test_every_tile_of_the_flagship_is_right(tile: str, tmp_path: Path) -> None:
    root = copied(tmp_path)
    file = root / "gemm/hopper/flagship.cu"
    before, choose, after = file.read_text().partition("Error choose(Plan& best, const GemmArgs& args) {\n")
    file.write_text(f"{before}{choose}  return consider<{tile}>(best, args, 1000);\n{after}")
    costs = root / "gemm/plans.cuh"
    text = costs.read_text().replace("HAND_ON = 3000 + 140 * TILE_N", "HAND_ON = 0")
    costs.write_text(text.replace("LEAST_OF_FEW = 96", "LEAST_OF_FEW = 8"))  # shares steps where it can
    problem = PLANS[tile]
    options: dict[str, Any] = {"distributions": ("cancellation",), "device": "cpu", "repeats": 1}
    loaded = library("flagship", problem, root)
    assert (workspace_bytes(loaded.handle, problem) > 0) == (tile.endswith("true") or tile.startswith("pairs"))
    found = gate.gate(launcher(loaded, problem), problem, padded=True, **options)
    assert found.passed, found.reason


def in_interpreter(name: str, problem: Problem) -> tuple[bool, str | None]:
    """Runs in a process with TRITON_INTERPRET."""
    loaded = build.load(case(techniques.get(f"gemm/{name}"), "triton", problem), on="cpu")
    found = gate.gate(loaded.launch, problem, distributions=("cancellation",), device="cpu", repeats=1, padded=True)
    return found.passed, found.reason


@pytest.mark.parametrize("technique", programs("triton"), ids=lambda rung: rung.name)
def test_a_triton_twin_is_right_in_the_interpreter(technique: Technique) -> None:
    ragged = Problem(72, 136, 200, "fp16", "bias")
    problems = (SEVERAL, *((ragged, ONE_STEP) if technique.general else ()))
    for problem in (ONE_STEP, Problem(40, 48, 64, "fp16")) if technique.name in SLOW else problems:
        environment = {**os.environ, "TRITON_INTERPRET": "1"}
        assert children.call(in_interpreter, technique.name, problem, environment=environment) == (True, None)


ONE_TILE = Problem(40, 120, 1608, "fp16", "gelu")
"""So many steps that each of the interpreter's three programs has a part of them."""


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("split_k", ONE_TILE),
        ("small_m", ONE_TILE),
        ("stream_k", Problem(136, 264, 1608, "fp16", "bias")),  # shares that end within tiles
        ("stream_k", Problem(1024, 256, 512, "fp16")),  # whole tiles behind them
    ],
)
def test_triton_programs_that_share_a_tile_add_up(name: str, problem: Problem) -> None:
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    assert children.call(in_interpreter, name, problem, environment=environment) == (True, None)


GROUPS = (Problem(300, 136, 136, "fp16", groups=9), Problem(40, 264, 72, "fp16", out="fp32", groups=16))
"""One group with more rows than a tile has, and many with a few."""


@pytest.mark.parametrize("problem", [*GROUPS, replace(GROUPS[0], dtype="bf16")], ids=lambda problem: problem.slug)
def test_groups_are_right_in_cuda(problem: Problem) -> None:
    loaded = library("grouped", problem)
    for seed in IN_TURN:
        found = gate.gate(launcher(loaded, problem, seed), problem, device="cpu", repeats=1, padded=True)
        assert found.passed, (seed, found.reason)


@pytest.mark.parametrize("problem", GROUPS, ids=lambda problem: problem.slug)
def test_groups_are_right_in_triton(problem: Problem) -> None:
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    assert children.call(in_interpreter, "grouped", problem, environment=environment) == (True, None)


SPILLS = {("stream_k", "gluon"): 80}
"""Bytes: numbers of a run of steps, put away while the main loop has the registers. Nothing else spills."""

CELLS = [
    (technique, backend, arch)
    for backend in techniques.LANGUAGES
    for technique in programs(backend)
    if sources.has_series(backend, technique.path)
    if techniques.unsupported(technique, backend, WHOLE, techniques.reference_tile(technique, WHOLE.tile_key)) is None
    for ladder in operators.get("gemm").ladders
    if ladder.name == technique.ladder
    for arch in ladder.archs
]


@pytest.mark.skipif(doctor.nvcc() is None, reason="no nvcc here")
@pytest.mark.parametrize(
    ("technique", "backend", "arch"), CELLS, ids=lambda word: word.name if isinstance(word, Technique) else word
)
def test_it_compiles_to_its_instruction_without_spills(technique: Technique, backend: str, arch: str) -> None:
    compiles(technique, backend, arch, Problem.square(4096))


@pytest.mark.skipif(doctor.nvcc() is None, reason="no nvcc here")
@pytest.mark.parametrize("backend", techniques.LANGUAGES)
def test_groups_compile_without_spills(backend: str) -> None:
    grouped = techniques.get("gemm/grouped")
    if sources.has_series(backend, grouped.path):
        compiles(grouped, backend, "sm_90a", Problem(4096, 1536, 2048, groups=128))


def compiles(technique: Technique, backend: str, arch: str, problem: Problem) -> None:
    cell = case(technique, backend, problem)
    found = children.call(survey.inspect_one, cell, arch, "bundled", environment=build.environment_of(cell))
    assert found["status"] == "passed", found["reason"]
    assert found["mma"] == technique.mma
    assert found["code"]["spill_bytes"] <= SPILLS.get((technique.name, backend), 0)
