"""Every rung compiles in each of its languages: all dims and masks for the recorded GPU, one problem for the others.

`make test` compiles every program whose machine code is not recorded, of this source and by this compiler, and four
cells of the others, by the commit; test_lock.py compiles twelve that are locked. It is half an hour where the compilers
are not those of the rows. `make test-full` compiles all of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from harness import build
from harness.catalog import techniques
from harness.catalog.cases import Case, origin
from harness.inspection import survey
from harness.inspection.survey import Cell
from harness.operators.attention.problem import Problem
from harness.setup import doctor
from tests.support import children, chosen, proven

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

FEW = 4
HOPPER = {cell for cell in CELLS if techniques.get(cell[0].technique or "").ladder == "hopper"}
"""Whose rows test_hopper_machine_code.py reads: an earlier reader saw less than today's in others."""


def program(cell: Cell) -> tuple[str, str]:
    return cell[0].backend, cell[0].technique or ""


def unproven(cells: Collection[Cell]) -> set[Cell]:
    """All that no row proves of a program without rows of the measured GPU, and a few of the cells that rows prove."""
    missing = {cell for cell in cells if not proven.compiled(cell)}
    programs = {program(cell) for cell in missing if cell[1] == survey.MEASURED}
    return {cell for cell in missing if program(cell) in programs} | chosen.by_commit(set(cells) - missing, FEW)


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
    found = children.call(survey.inspect_one, case, arch, "bundled", environment=build.environment_of(case))
    assert found["status"] == "passed", found["reason"]
    assert found["mma"] == techniques.get(case.technique or "").mma
    recorded = proven.code(cell)
    if recorded is None:
        return
    same = recorded["sass_sha256"] == found["code"]["sass_sha256"]
    assert same, "recorded: other machine code, of the same program by the same compiler"
    if cell in HOPPER:
        assert _without_zeros(recorded) == _without_zeros(found["code"]), "recorded: the same code, read otherwise"


def _without_zeros(code: dict[str, Any]) -> dict[str, Any]:
    return code | {"census": {name: count for name, count in code["census"].items() if count}}


def test_all_of_a_program_that_changed_is_compiled_and_a_few_others(monkeypatch: pytest.MonkeyPatch) -> None:
    own = {cell for cell in CELLS if cell[0].technique == "wmma"}
    monkeypatch.setattr(proven, "compiled", lambda cell: cell[0].technique != "wmma")
    found = {}
    for commit in ("a", "b"):
        monkeypatch.setattr(chosen, "commit", lambda commit=commit: commit)
        found[commit] = unproven(CELLS)
        assert own <= found[commit]
        assert len(found[commit] - own) == FEW
    assert found["a"] != found["b"]


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
