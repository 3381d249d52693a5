"""How tiles fill a GPU, from invented rows. No number here was ever measured."""

from __future__ import annotations

import re
from typing import Any

import pytest

from harness.catalog import experiments, techniques
from harness.catalog.entries import Tile
from harness.catalog.roofs import PEAK
from harness.operators.attention.problem import Problem
from reports.data.dataset import Dataset
from reports.facts import filling
from reports.pages import common
from reports.pages import filling as pages
from tests.support import synthetic_rows as synthetic
from tests.support.pages import rendered

pytestmark = pytest.mark.slow

Row = dict[str, Any]
GHZ = 1.7
HASHES = {(filling.KERNEL, "cuda"): "c" * 64, (filling.KERNEL, "gluon"): "d" * 64}
HASHES[filling.KERNEL, "triton"] = "e" * 64
BLOCKS = synthetic.ENVIRONMENT["details"]["gpu"]["sm_count"]
PROBLEMS = [one for one in experiments.load(filling.EXPERIMENT).problems if one.head_dim == 128]


def timing(problem: Problem, clocks: float, **fields: Any) -> Row:
    tile = techniques.reference_tile(techniques.get(filling.KERNEL), problem.head_dim)
    of = {"experiment": filling.EXPERIMENT, "mode": "burst", "group": "g", "clock_ghz": [GHZ]}
    row = synthetic.make("timing", filling.KERNEL, "cuda", problem, tile, **of, samples_ms=[clocks / GHZ / 1e6])
    return {**row, "source_sha256": HASHES[filling.KERNEL, "cuda"], **fields}


def rows(rate: float, beyond: int, slower: float = 1.0, series: str = "cuda", **fields: Any) -> list[Row]:
    """As of a kernel that the two numbers describe, in a series' order of tiles; the last problem is slower than they
    say."""
    made: list[Row] = [synthetic.ENVIRONMENT]
    for problem in PROBLEMS:
        tile = techniques.reference_tile(techniques.get(filling.KERNEL), problem.head_dim)
        cell = filling.Cell(problem, tile, {}, BLOCKS, series=series)
        clocks = cell.longest(beyond) / rate
        made.append(timing(problem, clocks * (slower if problem is PROBLEMS[-1] else 1), **fields))
    return made


def dataset(made: list[Row]) -> Dataset:
    return Dataset("NVIDIA H200", True, made, HASHES)


@pytest.mark.parametrize(("rate", "beyond"), [(0.66, 1500), (0.98, 4250), (1.0, 8250), (0.9, 0)])
def test_the_two_numbers_of_a_kernel_are_found(rate: float, beyond: int) -> None:
    (found,) = filling.found(dataset(rows(rate, beyond)), "cuda")
    assert (found.head_dim, found.beyond) == (128, beyond)
    assert found.rate == pytest.approx(rate)
    assert max(map(abs, found.errors)) < 1e-9
    for one in found.cells:
        assert one.cell.share == pytest.approx(rate * one.share)


def test_a_problem_that_is_slower_for_another_reason_stands_out() -> None:
    (found,) = filling.found(dataset(rows(0.9, 3000, slower=1.25)), "cuda")
    assert found.rate == pytest.approx(0.9)
    assert found.beyond == 3000
    off = {
        one.cell.problem.slug: error for one, error in zip(found.cells, found.errors, strict=True) if abs(error) > 0.01
    }
    assert off == {PROBLEMS[-1].slug: pytest.approx(-0.2)}
    assert found.near(pages.NEAR) == len(PROBLEMS) - 1


def test_no_kernel_is_above_the_peak() -> None:
    (found,) = filling.found(dataset(rows(1.1, 2000)), "cuda")
    assert found.rate == 1.0


def test_what_a_tile_does_is_counted() -> None:
    square = Problem(1, 2, 2, 256, 384, 128, "bf16", True)
    cell = filling.Cell(square, Tile(128, 128, 2, 8), {}, multiprocessors=3)
    assert sorted(cell.steps) == [2, 2, 3, 3]  # the last 256 of 384 keys begin at the diagonal
    step = 4 * 128 * 128 * 128 / PEAK
    assert cell.step_clocks == step
    # Longest first, two heads together: 3, 3 and 2 steps, and the last 2 after the first block that is free.
    assert cell.longest(0) == 4 * step
    assert cell.longest(10) == 4 * step + 20
    assert cell.mean(0) == 10 * step / 3
    full = filling.Cell(Problem(1, 2, 2, 256, 384, 128, "bf16", False), Tile(128, 80, 2, 8), {}, multiprocessors=3)
    assert full.steps == [5] * 4


@pytest.mark.parametrize("fields", [{"clock_ghz": None}, {"status": "not_converged", "reason": "r"}])
def test_without_a_time_or_a_clock_nothing_is_said(fields: Row) -> None:
    made = [{name: value for name, value in row.items() if value is not None} for row in rows(0.9, 2000, **fields)]
    assert filling.found(dataset(made), "cuda") == []


def in_gluon(made: list[Row]) -> list[Row]:
    return [
        row | {"backend": "gluon", "source_sha256": HASHES[filling.KERNEL, "gluon"]}
        for row in made
        if row["kind"] == "timing"
    ]


def test_blocks_that_share_a_multiprocessor_have_equal_shares_of_it() -> None:
    problem = Problem(1, 4, 4, 256, 256, 128, "bf16", False)
    alone = filling.Cell(problem, Tile(128, 128, 2, 8), {}, multiprocessors=2)
    shared = filling.Cell(problem, Tile(128, 128, 2, 8), {}, multiprocessors=2, resident=3)
    step = alone.step_clocks
    assert alone.longest(10) == 4 * (2 * step + 10)  # eight tiles on two
    assert shared.longest(10) == 2 * (2 * step + 10) * 3  # on six, each at a third of the speed
    assert shared.mean(10) == alone.mean(10)


def in_triton(made: list[Row], registers: int, shared: int, **fields: Any) -> list[Row]:
    """Timings of Triton's flagship, and what compilers made of it."""
    of = {"backend": "triton", "source_sha256": HASHES[filling.KERNEL, "triton"], **fields}
    timings = [row | of for row in made if row["kind"] == "timing"]
    code = {"registers": registers, "smem_bytes": shared, "census": {}, "sass_sha256": "e" * 64}
    return [*timings, *({**row, "kind": "gate", "mode": None, "code": code} for row in timings)]


@pytest.mark.parametrize(
    ("registers", "shared", "blocks"),
    [(158, 50_176, 3), (128, 25_600, 4), (227, 99_328, 2), (140, 114_744, 2), (32, 0, 16), (129, 1024, 3)],
)
def test_as_many_blocks_are_resident_as_registers_and_shared_memory_hold(
    registers: int, shared: int, blocks: int
) -> None:
    row, *others = in_triton(rows(0.7, 2000)[:2], registers, shared, tile=Tile(64, 128, 1, 4).to_dict())
    assert filling.resident(dataset([row, *others]), row) == blocks


def test_core_tritons_blocks_are_replaced_and_dealt_out_in_its_order() -> None:
    data = dataset([*rows(0.9, 3000), *in_triton(rows(0.7, 2000), 32, 0)])
    cells = [line.cell for one in filling.found(data, "triton") for line in one.cells]
    assert {(cell.resident, cell.series) for cell in cells} == {(5, "triton")}


def test_triton_is_left_out_where_nobody_read_its_machine_code() -> None:
    timings = [row for row in in_triton(rows(0.7, 2000), 32, 0) if row["kind"] != "gate"]
    assert filling.found(dataset([*rows(0.9, 3000), *timings]), "triton") == []


def page(made: list[Row]) -> str:
    text = rendered("experiment.html", common.experiment(dataset(made), filling.EXPERIMENT))
    assert text.count("<svg") == 1
    return " ".join(re.sub(r"<[^>]+>", " ", text).split())


def test_the_page_of_the_grid_says_it() -> None:
    said = page(rows(0.9, 3000))
    assert "Within a tile of head_dim 128, of the tensor cores’ peak: CUDA 90%" in said
    assert f"CUDA 90% , 3,000 clocks within 2% of {len(PROBLEMS)} of {len(PROBLEMS)} problems" in said
    assert "behind CUDA" not in said
    both = page([*rows(0.9, 3000), *in_gluon(rows(0.8, 3000, series="gluon"))])
    assert "of the tensor cores’ peak: CUDA 90%, Gluon 80%" in both
    assert "Gluon is behind CUDA inside the main loop." in both
