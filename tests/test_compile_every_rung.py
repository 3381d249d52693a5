"""Every rung compiles in each of its languages: all dims and masks for the recorded GPU, one problem for the others."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import Any

import pytest

from harness import doctor, inspection, results, sources, techniques, variants
from harness.inspection import Cell
from harness.problem import Problem

pytestmark = pytest.mark.timeout(1800)  # the first test compiles for all, minutes from an empty build folder

NAMES = [technique.name for technique in techniques.TECHNIQUES]
LANGUAGES = ("cuda", "triton", "gluon")
PROBLEMS = [Problem.square(4, 16, 4096, d, dtype="bf16", causal=mask) for d, mask in product((64, 128), (False, True))]
ELSEWHERE = Problem.square(4, 16, 4096, 128, dtype="bf16")


def distinct(cells: Iterable[Cell]) -> list[Cell]:
    """The first of the cells that are one program at one tile: a twin may repeat another's."""
    found: dict[Any, Cell] = {}
    for case, arch in cells:
        found.setdefault((variants.origin(case), case.backend, case.problem, case.tile, arch), (case, arch))
    return list(found.values())


CELLS = distinct(
    [
        *inspection.cells(NAMES, LANGUAGES, PROBLEMS, (inspection.MEASURED,)),
        *inspection.cells(NAMES, LANGUAGES, [ELSEWHERE]),
    ]
)


@pytest.fixture(scope="module")
def compiled() -> dict[Cell, dict[str, Any]]:
    if doctor.nvcc() is None:
        pytest.skip("no nvcc here")
    return dict(inspection.inspect(CELLS))


@pytest.mark.parametrize(
    "cell", CELLS, ids=lambda cell: f"{cell[0].technique}-{cell[0].backend}-{cell[0].problem.slug}-{cell[1]}"
)
def test_it_compiles_to_its_instruction_class(compiled: dict[Cell, dict[str, Any]], cell: Cell) -> None:
    found = compiled[cell]
    assert found["status"] == "passed", found["reason"]
    assert found["mma"] == techniques.get(cell[0].technique or "").mma


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_recorded_machine_code_is_what_is_compiled_here(
    compiled: dict[Cell, dict[str, Any]], language: str
) -> None:
    rows = [inspection.row(cell, fields) for cell, fields in compiled.items() if cell[0].backend == language]
    ladder = results.read(sources.ROOT / "reports/recorded/h200/ladder.jsonl")
    recorded = [row for row in ladder if row["kind"] == "gate" and row["backend"] == language]
    same = dict(results.same_code(rows, recorded))
    if not same:
        there, here = (
            sorted({row["compiler"]["front_end"] for row in some if row.get("compiler")}) for some in (recorded, rows)
        )
        pytest.skip(f"recorded with {there}, compiled here with {here}, or recorded from other sources")
    assert [key for key, equal in same.items() if not equal] == []


def test_every_rung_is_among_them_on_every_architecture_of_its_ladder() -> None:
    programs = {(case.backend, variants.origin(case), case.tile, case.problem, arch) for case, arch in CELLS}
    for name, language in product(NAMES, LANGUAGES):
        for case, arch in inspection.cells([name], [language], [ELSEWHERE]):
            assert (language, variants.origin(case), case.tile, ELSEWHERE, arch) in programs
    assert {(case.problem, arch) for case, arch in CELLS} >= {(problem, "sm_90a") for problem in PROBLEMS}
