"""Every rung compiles in each of its languages: all dims and masks for the recorded GPU, one problem for the others.

`make test` leaves out what recorded rows prove: of a program whose machine code is recorded, of this source and by this
compiler, one problem is compiled, on the architectures in turn. Of any other everything is: half an hour where the
compilers are not those of the rows. `make test-full` compiles all of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby, product
from pathlib import Path
from typing import Any

import pytest

from harness import variants
from harness.catalog import techniques
from harness.catalog.cases import Case, origin
from harness.catalog.problem import Problem
from harness.inspection import survey
from harness.inspection.survey import Cell
from harness.rows import results
from harness.setup import doctor
from tests.support import children, proven

pytestmark = pytest.mark.spread

NAMES = [technique.name for technique in techniques.TECHNIQUES]
LANGUAGES = ("cuda", "triton", "gluon")
PROBLEMS = [Problem.square(4, 16, 4096, d, dtype="bf16", causal=mask) for d, mask in product((64, 128), (False, True))]
ELSEWHERE = Problem.square(4, 16, 4096, 128, dtype="bf16")


def declined(case: Case) -> bool:
    assert case.tile is not None
    return bool(techniques.unsupported(techniques.get(case.technique or ""), case.backend, case.problem, case.tile))


def distinct(cells: Iterable[Cell]) -> list[Cell]:
    """The first of the cells that are one program at one tile, as a twin may repeat another's; none that is
    declined."""
    found: dict[Any, Cell] = {}
    for case, arch in cells:
        if declined(case):
            continue
        found.setdefault((origin(case), case.backend, case.problem, case.tile, arch), (case, arch))
    return list(found.values())


CELLS = distinct(
    [
        *survey.cells(NAMES, LANGUAGES, PROBLEMS, (survey.MEASURED,)),
        *survey.cells(NAMES, LANGUAGES, [ELSEWHERE]),
    ]
)

HOPPER = {cell for cell in CELLS if techniques.get(cell[0].technique or "").ladder == "hopper"}
"""Whose rows test_hopper_machine_code.py reads: an earlier reader saw less than today's in others."""


def program(cell: Cell) -> tuple[str, str]:
    return cell[0].backend, cell[0].technique or ""


def unproven(cells: Iterable[Cell]) -> set[Cell]:
    """Of each program all that no row proves, and one cell where rows prove it."""
    chosen: set[Cell] = set()
    for number, (_, group) in enumerate(groupby(sorted(cells, key=program), key=program)):
        own = list(group)
        missing = {cell for cell in own if not proven.compiled(cell)}
        if any(arch == survey.MEASURED for _, arch in missing):
            chosen |= missing
        else:
            one = [cell for cell in own if cell[0].problem == ELSEWHERE] or own  # some tiles are of another head_dim
            chosen.add(one[number % len(one)])
    return chosen


QUICK = unproven(CELLS)


@pytest.mark.parametrize(
    "cell",
    [pytest.param(cell, marks=() if cell in QUICK else pytest.mark.full) for cell in CELLS],
    ids=lambda cell: f"{cell[0].technique}-{cell[0].backend}-{cell[0].problem.slug}-{cell[1]}",
)
def test_it_compiles_to_its_instruction_class_and_to_what_is_recorded(cell: Cell) -> None:
    if doctor.nvcc() is None:
        pytest.skip("no nvcc here")
    case, arch = cell
    found = children.call(survey.inspect_one, case, arch, "bundled", environment=variants.environment_of(case))
    assert found["status"] == "passed", found["reason"]
    assert found["mma"] == techniques.get(case.technique or "").mma
    same = results.same_code([survey.row(cell, found)], proven.rows())
    assert bool(same) == proven.compiled(cell)
    assert all(equal for _, equal in same), "recorded: other machine code, of the same source by the same compiler"
    recorded = proven.code(cell)
    if recorded and cell in HOPPER:
        assert _without_zeros(recorded) == _without_zeros(found["code"]), "recorded: the same code, read otherwise"


def _without_zeros(code: dict[str, Any]) -> dict[str, Any]:
    return code | {"census": {name: count for name, count in code["census"].items() if count}}


def test_one_problem_of_every_program_is_compiled_and_all_of_one_that_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {program(cell) for cell in QUICK} == {program(cell) for cell in CELLS}
    monkeypatch.setattr(proven, "compiled", lambda cell: cell[1] == survey.MEASURED and cell[0].technique != "wmma")
    chosen = unproven(CELLS)
    own = {cell for cell in CELLS if cell[0].technique == "wmma"}
    assert own <= chosen
    others = [program(cell) for cell in chosen - own]
    assert len(others) == len(set(others)) == len({program(cell) for cell in CELLS}) - len({program(c) for c in own})
    assert {arch for _, arch in chosen - own} == {arch for _, arch in CELLS}


@pytest.mark.parametrize("edited", ["the kernel", "a header"])
def test_rows_prove_nothing_of_what_was_edited(tmp_path: Path, edited: str) -> None:
    """All cells of one kernel are compiled again, or of every one that includes the header."""
    before = {cell for cell in CELLS if proven.compiled(cell)}
    name = next((cell[0].technique for cell in CELLS if cell in before and cell[0].backend == "cuda"), None)
    if name is None:
        pytest.skip("no row proves a CUDA kernel here")
    file = (
        "cuda_kernels/attention/attention.cuh"
        if edited == "a header"
        else f"cuda_kernels/{techniques.get(name).path}.cu"
    )
    concerned = {cell for cell in CELLS if proven.uses(cell, file)}
    assert before & concerned
    with proven.edited(tmp_path, file):
        assert {cell for cell in CELLS if proven.compiled(cell)} == before - concerned
        assert unproven(CELLS) >= concerned
    assert {cell for cell in CELLS if proven.compiled(cell)} == before


def test_rows_of_another_compiler_prove_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    if not any(map(proven.compiled, CELLS)):
        pytest.skip("no row proves a kernel here")
    monkeypatch.setattr(proven, "compiler", lambda cell: ("nvcc 14.0", "14.0", "-O3"))
    assert not any(map(proven.compiled, CELLS))


def test_every_rung_is_among_them_on_every_architecture_of_its_ladder() -> None:
    programs = {(case.backend, origin(case), case.tile, case.problem, arch) for case, arch in CELLS}
    for name, language in product(NAMES, LANGUAGES):
        for case, arch in survey.cells([name], [language], [ELSEWHERE]):
            if language != "cuda" and declined(case):  # a registry's tile is CUDA's in any case
                continue
            assert (language, origin(case), case.tile, ELSEWHERE, arch) in programs
    assert {(case.problem, arch) for case, arch in CELLS} >= {(problem, "sm_90a") for problem in PROBLEMS}
