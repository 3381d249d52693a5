"""How tiles fill a GPU, from invented rows. No number here was ever measured."""

from __future__ import annotations

import re
from typing import Any

import pytest

from harness.catalog import experiments, techniques
from harness.catalog.problem import Problem, Tile
from harness.catalog.roofs import PEAK
from harness.rows import results
from reports import build
from reports.data.dataset import Dataset
from reports.facts import filling, headlines
from reports.pages import common
from tests.support import synthetic_rows as synthetic

Row = dict[str, Any]
GHZ = 1.7
HASHES = {(filling.KERNEL, "cuda"): "c" * 64, (filling.KERNEL, "gluon"): "d" * 64}
BLOCKS = synthetic.ENVIRONMENT["details"]["gpu"]["sm_count"]
PROBLEMS = [one for one in experiments.load(filling.EXPERIMENT).problems if one.head_dim == 128]


def timing(problem: Problem, clocks: float, **fields: Any) -> Row:
    return {
        "schema": results.SCHEMA,
        "kind": "timing",
        "on": "gpu",
        "experiment": filling.EXPERIMENT,
        "technique": filling.KERNEL,
        "backend": "cuda",
        "problem": problem.to_dict(),
        "tile": techniques.reference_tile(techniques.get(filling.KERNEL), problem.head_dim).to_dict(),
        "source_sha256": HASHES[filling.KERNEL, "cuda"],
        "status": "passed",
        "mode": "burst",
        "group": "g",
        "samples_ms": [clocks / GHZ / 1e6],
        "clock_ghz": [GHZ],
        "environment": synthetic.ENVIRONMENT["id"],
        "time": "2030-01-02T00:00:00Z",
        **fields,
    }


def rows(rate: float, beyond: int, slower: float = 1.0, **fields: Any) -> list[Row]:
    """As of a kernel that the two numbers describe; the last problem is slower than they say."""
    made: list[Row] = [synthetic.ENVIRONMENT]
    for problem in PROBLEMS:
        tile = techniques.reference_tile(techniques.get(filling.KERNEL), problem.head_dim)
        cell = filling.Cell(problem, tile, {}, BLOCKS)
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
    assert f"predicts {len(PROBLEMS) - 1} of {len(PROBLEMS)} problems" in headlines.filling_title([found])


def test_no_kernel_is_above_the_peak() -> None:
    (found,) = filling.found(dataset(rows(1.1, 2000)), "cuda")
    assert found.rate == 1.0


def test_what_a_tile_does_is_counted() -> None:
    square = Problem(1, 2, 2, 256, 384, 128, "bf16", True)
    cell = filling.Cell(square, Tile(128, 128, 2, 8), {}, blocks=3)
    assert sorted(cell.steps) == [2, 2, 3, 3]  # the last 256 of 384 keys begin at the diagonal
    step = 4 * 128 * 128 * 128 / PEAK
    assert cell.step_clocks == step
    # Longest first, two heads together: 3, 3 and 2 steps, and the last 2 after the first block that is free.
    assert cell.longest(0) == 4 * step
    assert cell.longest(10) == 4 * step + 20
    assert cell.mean(0) == 10 * step / 3
    full = filling.Cell(Problem(1, 2, 2, 256, 384, 128, "bf16", False), Tile(128, 80, 2, 8), {}, blocks=3)
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


@pytest.mark.parametrize(
    ("rate", "beyond", "in_the_loop"),
    [(0.8, 3000, True), (0.8, 3250, True), (0.88, 12_000, False), (0.95, 3000, False)],
)
def test_what_parts_two_languages_is_told(rate: float, beyond: int, in_the_loop: bool) -> None:
    data = dataset([*rows(0.9, 3000), *in_gluon(rows(rate, beyond))])
    ours, theirs = (filling.found(data, series) for series in ("cuda", "gluon"))
    assert theirs[0].beyond == beyond
    assert filling.is_in_the_loop(ours, theirs) is in_the_loop


def page(made: list[Row]) -> str:
    environment = build._environment(None)
    environment.globals["experiments"] = []
    variables = {"page": "experiment/hopper_grid.html", "up": "../", "data": None}
    template = environment.get_template("experiment.html")
    return template.render({**variables, **common.experiment(dataset(made), filling.EXPERIMENT)})


def words(text: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", text).split())


def test_the_page_of_the_grid_says_it() -> None:
    text = page(rows(0.9, 3000))
    said = words(text)
    assert f"how tiles fill the GPU predicts {len(PROBLEMS)} of {len(PROBLEMS)} problems to within 2%" in said
    assert "while a block multiplies: 90% at head_dim 128, whatever" in said
    assert "to begin and to end: 3,000 at head_dim 128." in said
    assert "takes its tiles in the same order" not in said
    assert text.count("<svg") == 1
    both = words(page([*rows(0.9, 3000), *in_gluon(rows(0.8, 3000))]))
    assert "Its share of the peak while a block multiplies is 80% at head_dim 128; its clocks beyond" in both
    assert "falls behind CUDA inside its main loop" in both
