"""Every rung of the matrix products is right on a CPU in both languages.

`make test` runs all of them where a tile is not whole or an epilogue follows; on whole tiles those that no GPU has
passed as they are now, and six of the others, by the commit.
"""

import re
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import pytest

from cuda_kernels.cpu_library import Library
from harness import build, operators
from harness.build.cuda import workspace_bytes
from harness.catalog import sources, techniques
from harness.catalog.cases import Case
from harness.catalog.entries import Technique
from harness.measure import gate
from harness.operators.gemm.problem import Problem
from tests.support import children, chosen, cpu_run, proven, together

RUNGS = operators.get("gemm").techniques
WHOLE = Problem(128, 256, 448, "fp16")
"""Seven steps of the main loop: a ring of five buffers wraps."""
SEVERAL = Problem(384, 256, 64, "fp16", "gelu", "fp32")
"""Several tiles, fewer rows of them than a group of the grid order has. RAGGED has as many."""
RAGGED = Problem(200, 264, 136, "bf16", "bias", "fp32")
ONE_STEP = Problem(1, 264, 8, "fp16")
MAJORS = (replace(RAGGED, contiguous="mk"), replace(RAGGED, contiguous="kn"))
"""m contiguous in A, and n in B. Both at once are among the wrong kernels' problems."""
IN_TURN = (0, 3)
"""Seeds of the scheduler."""
BY_ELEMENT = {
    "scalar": (Problem(40, 48, 64, "fp16"), Problem(40, 72, 40, "bf16", "bias", "fp32")),
    "block_tiled": (Problem(64, 64, 96, "fp16"), Problem(96, 64, 32, "fp16", "gelu", "fp32")),
}
"""A thread has one element of C, and loads each factor by itself: tiles of 32 x 32, no ring, and slow on a CPU."""
WHOLE_TILES = {WHOLE, *(whole for whole, _ in BY_ELEMENT.values())}
GROUPS = (Problem(300, 136, 136, "bf16", groups=9), Problem(40, 264, 72, "fp16", out="fp32", groups=16))
"""One group with more rows than a tile has, and many with a few."""
FURTHER = {"either_major": MAJORS, "grouped": (ONE_STEP, *GROUPS)}


def case(technique: Technique, backend: str, problem: Problem) -> Case:
    tile = techniques.reference_tile(technique, problem.tile_key)
    return Case("tests", f"gemm/{technique.name}", backend, problem, tile)


def problems(technique: Technique) -> tuple[Problem, ...]:
    two = BY_ELEMENT.get(technique.name, (WHOLE, RAGGED if technique.general else SEVERAL))
    return (*two, *FURTHER.get(technique.name, (ONE_STEP,) * technique.general))


def cells(backend: str) -> list[tuple[str, Problem]]:
    """Rungs that are no other rung's program, each on its problems; sorted by problem, since the gate caches the exact
    answers of one problem at a time."""
    distinct = [one for one in RUNGS if sources.same_program(one.path, backend) is None]
    found = [(one.name, problem) for one in distinct for problem in problems(one)]
    return sorted(found, key=lambda cell: cell[1].slug)


def is_gated(cell: tuple[str, Problem]) -> bool:
    """Has a GPU computed such a problem? Those of recorded gates are whole tiles, without an epilogue."""
    return cell[1] in WHOLE_TILES and proven.passed(f"gemm/{cell[0]}")


libraries = pytest.fixture(scope="module")(together.asked)


@pytest.mark.parametrize(("name", "problem"), chosen.params(cells("cuda"), is_gated, 6))
def test_a_cuda_twin_is_right_on_a_cpu(name: str, problem: Problem, libraries: together.Libraries) -> None:
    is_right(libraries[name, problem], problem)


def is_right(loaded: Library, problem: Problem) -> None:
    """In one distribution; of groups in each, since their sizes follow from it."""
    distributions = ("cancellation",) if problem.groups == 1 else ()
    launch = cpu_run.launcher(loaded, problem, *IN_TURN)
    found = gate.gate(launch, problem, distributions=distributions, device="cpu", repeats=1, padded=True)
    assert found.passed, (problem.slug, found.reason)


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


@cache
def plans() -> dict[str, Library]:
    """The flagship with each tile, whatever it costs."""

    def choosing(tile: str, file: str) -> str | None:
        text = together.as_it_is(file)
        if file == "gemm/hopper/flagship.cu":
            before, choose, after = str(text).partition("Error choose(Plan& best, const GemmArgs& args) {\n")
            return f"{before}{choose}  return consider<{tile}>(best, args, 1000);\n{after}"
        if file == "gemm/plans.cuh":  # shares steps where it can
            free = str(text).replace("HAND_ON = 3000 + 140 * TILE_N", "HAND_ON = 0")
            return free.replace("LEAST_OF_FEW = 96", "LEAST_OF_FEW = 8")
        return text

    built = together.build(
        [together.Kernel("flagship", problem, read=partial(choosing, tile)) for tile, problem in PLANS.items()]
    )
    return dict(zip(PLANS, built, strict=True))


@pytest.mark.parametrize("tile", PLANS)
def test_every_tile_of_the_flagship_is_right(tile: str) -> None:
    problem, loaded = PLANS[tile], plans()[tile]
    assert (workspace_bytes(loaded.handle, problem) > 0) == (tile.endswith("true") or tile.startswith("pairs"))
    is_right(loaded, problem)


def in_interpreter(name: str, problem: Problem) -> tuple[bool, str | None]:
    """Runs in a process with TRITON_INTERPRET."""
    loaded = build.load(case(techniques.get(f"gemm/{name}"), "triton", problem), on="cpu")
    found = gate.gate(loaded.launch, problem, distributions=("cancellation",), device="cpu", repeats=1, padded=True)
    return found.passed, found.reason


def is_right_in_triton(name: str, problem: Problem) -> None:
    assert children.call(in_interpreter, name, problem, environment={"TRITON_INTERPRET": "1"}) == (True, None)


@pytest.mark.parametrize(
    ("name", "problem"),
    [cell for cell in cells("triton") if cell[1] not in WHOLE_TILES],
    ids=lambda part: getattr(part, "slug", part),
)
def test_a_triton_twin_is_right_in_the_interpreter(name: str, problem: Problem) -> None:
    """In fp16: the interpreter declines bf16."""
    is_right_in_triton(name, replace(problem, dtype="fp16"))


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
    is_right_in_triton(name, problem)


@pytest.mark.parametrize("backend", ["triton", "gluon"])
def test_no_copy_transposes_an_operand(backend: str, tmp_path: Path) -> None:
    """wgmma transposes A and B as it reads them; Triton's `.T` and Gluon's `permute` move nothing."""
    one = case(techniques.get("gemm/either_major"), backend, Problem.square(4096, contiguous="mn"))
    compiled, cubin = build.compile_triton(one, "sm_90a"), tmp_path / "cubin"
    assert not re.findall(r"ttg\.local_(?:load|store)|ttg\.local_alloc %", compiled.asm["ttgir"])
    cubin.write_bytes(compiled.asm["cubin"])
    products = re.findall(r"HGMMA[^;]*", build.machine_code.listing(cubin, "-sass"))
    assert products
    assert all(".tnspA.tnspB" in product for product in products)
