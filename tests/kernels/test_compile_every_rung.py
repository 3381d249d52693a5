"""Every rung of every operator compiles in each of its languages, and what kernels.lock has is what the compilers make.

`make test` compiles two cells of each program of which no machine code is recorded, of this source and by this
compiler, three that are recorded of matrix products and gradients, and twelve that are locked, by the commit.
`make test-full` compiles all: of attention every head_dim and mask for the recorded GPU, one problem for the others.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from cuda_kernels import toolchain
from harness import build, operators
from harness.build import compiling, locking, machine_code
from harness.catalog import experiments, sources, techniques
from harness.catalog.cases import Case, origin
from harness.catalog.entries import Tile
from harness.inspection import survey
from harness.inspection.survey import Cell
from harness.operators.attention.problem import Problem
from harness.operators.attention_backward.problem import Problem as Backward
from harness.operators.gemm.problem import Problem as Product
from harness.rows import lock
from harness.setup import doctor
from tests.support import children, chosen, proven

pytestmark = [
    pytest.mark.spread,
    pytest.mark.skipif(doctor.nvcc() is None, reason="no nvcc here"),
]

LANGUAGES = ("cuda", "triton", "gluon")
PROBLEMS = [Problem.square(4, 16, 4096, d, dtype="bf16", causal=mask) for d, mask in product((64, 128), (False, True))]
ELSEWHERE = Problem.square(4, 16, 4096, 128, dtype="bf16")
GRADIENTS = [Backward.square(4, 2048 // d, 4096, d, causal=mask) for d, mask in ((64, True), (128, False))]
GROUPED = Product(4096, 1536, 2048, groups=128)
SPILLS = {("stream_k", "gluon"): 80}
"""Bytes, of matrix products: numbers of a run of steps, put away while the main loop has the registers. Nothing else of
theirs spills."""


VARY = {("gemm", "producer_consumer", "triton"), ("gemm", "two_consumers", "triton")}
"""Core Triton specializes these by warp, and compiles each to one of two programs with equal counts, by chance."""

BY_NVCC = {
    ("attention", "overlapped_softmax", "triton"),
    ("attention", "integer_max", "gluon"),
    ("attention", "fused_switch", "gluon"),
}
"""Rows of these name Triton's own ptxas, but their machine code is what nvcc's makes. Triton's cache could hold such
code: a process that went over to nvcc's still gave the version of Triton's. New rows make this set superfluous."""


def rungs(operator: str) -> list[str]:
    return [f"{operator}/{technique.name}" for technique in operators.get(operator).techniques]


def distinct(cells: Iterable[Cell]) -> list[Cell]:
    """The first of the cells that are one program at one tile, as a twin may repeat another's; none that is
    declined."""
    found: dict[Any, Cell] = {}
    for case, arch in cells:
        assert case.tile is not None
        if not techniques.unsupported(
            techniques.at(case.technique or "", case.problem), case.backend, case.problem, case.tile
        ):
            found.setdefault((origin(case), case.backend, case.problem, case.tile, arch), (case, arch))
    return list(found.values())


CELLS = distinct(
    [
        *survey.cells(rungs("attention"), LANGUAGES, PROBLEMS, (survey.MEASURED,)),
        *survey.cells(rungs("attention"), LANGUAGES, [ELSEWHERE]),
        *survey.cells(rungs("gemm"), LANGUAGES, [Product.square(4096)]),
        *survey.cells(["gemm/grouped"], LANGUAGES, [GROUPED]),
        *survey.cells(rungs("attention_backward"), LANGUAGES, GRADIENTS),
    ]
)


def program(cell: Cell) -> tuple[str, ...]:
    return cell[0].problem.operator, cell[0].backend, cell[0].technique or ""


def unproven(cells: Collection[Cell]) -> set[Cell]:
    """Two of a program of which no row proves a cell on the measured GPU; another commit chooses others."""
    proved = {program(cell) for cell in cells if cell[1] == survey.MEASURED and proven.compiled(cell)}
    new = {program(cell) for cell in cells} - proved
    return {cell for one in new for cell in chosen.by_commit([cell for cell in cells if program(cell) == one], 2)}


UNLOCKED = [cell for cell in CELLS if cell[0].problem.operator != operators.FIRST]
QUICK = unproven(CELLS) | chosen.by_commit(UNLOCKED, 3)


def spills_too_much(cell: Cell, code: Mapping[str, Any]) -> bool:
    case = cell[0]
    return case.problem.operator == "gemm" and code["spill_bytes"] > SPILLS.get((case.technique, case.backend), 0)


@pytest.mark.parametrize(
    "cell",
    [pytest.param(cell, marks=() if cell in QUICK else pytest.mark.full) for cell in CELLS],
    ids=lambda cell: f"{cell[0].technique}-{cell[0].backend}-{cell[0].problem.slug}-{cell[1]}",
)
def test_it_compiles_to_its_instruction_class_and_to_what_is_recorded(cell: Cell) -> None:
    case, arch = cell
    found = children.call(survey.inspect_one, case, arch, "bundled", environment=build.environment_of(case))
    assert found["status"] == "passed", found["reason"]
    assert found["mma"] == techniques.at(case.technique or "", case.problem).mma
    assert not spills_too_much(cell, found["code"]), found["code"]["spill_bytes"]
    if recorded := proven.code(cell):
        same = shape(case, recorded) == shape(case, found["code"])
        if not same and (case.problem.operator, case.technique, case.backend) in BY_NVCC:
            same = recorded["sass_sha256"] == by_nvcc(cell)["sass_sha256"]
        assert same, "recorded: other machine code, of the same program by the same compiler"


def by_nvcc(cell: Cell) -> Mapping[str, Any]:
    """The `code` of this cell where nvcc's ptxas assembles it."""
    case, arch = cell
    environment = {**(build.environment_of(case) or {}), **compiling.shared_assembler()}
    found: Mapping[str, Any] = children.call(survey.inspect_one, case, arch, "shared", environment=environment)["code"]
    return found


def shape(case: Case, code: Mapping[str, Any]) -> Mapping[str, Any]:
    """What two compilations of a program have in common: all of its machine code, unless the program is in VARY."""
    names = ("registers", "spill_bytes", "smem_bytes", "census", "setmaxnreg")
    varies = (case.problem.operator, case.technique, case.backend) in VARY
    return {name: code[name] for name in (names if varies else ("sass_sha256",))}


def test_a_process_that_goes_over_to_nvccs_ptxas_says_so(tmp_path: Path) -> None:
    environment = {"TRITON_CACHE_DIR": str(tmp_path)}
    (first, arch), (second, _) = [cell for cell in CELLS if program(cell) == ("attention", "triton", "wgmma")][:2]
    own = children.call(survey.inspect_one, first, arch, "bundled", environment=environment)
    other = children.call(survey.inspect_one, second, arch, "shared", environment=environment)
    tools = toolchain.find(toolchain.homes())
    assert tools
    assert own["compiler"]["ptxas"] != other["compiler"]["ptxas"] == tools.ptxas


def test_what_is_recorded_has_its_instruction_class_and_no_spills() -> None:
    for cell in CELLS:
        if code := proven.code(cell):
            mma = machine_code.mma_class(Counter(code["census"]))
            assert mma == techniques.at(cell[0].technique or "", cell[0].problem).mma, cell
            assert not spills_too_much(cell, code), cell


def locked() -> Iterator[tuple[lock.Key, locking.Program, str]]:
    """(kernel, program, machine code) where the locked source is this checkout's, by a compiler that is here. Triton
    makes another program for padded tensors, which `compile_all` has not: padded gates are left out."""
    asked = (experiments.load(name) for name in experiments.names())
    padded = {problem.slug for experiment in asked if experiment.padded for problem in experiment.problems}
    for kernel in lock.read().values():
        technique = techniques.of_qualified(kernel.technique)
        here = kernel.backend in ("cuda", *techniques.SERIES) and (kernel.backend == "cuda" or kernel.ptxas[:2] == "12")
        if here and kernel.source == sources.source_sha256(kernel.backend, technique.path)[: lock.DIGITS]:
            for (tile, sass), problem in kernel.cells.items():
                if kernel.backend == "cuda" or problem not in padded:
                    yield kernel.key, (problem, tile), sass


def test_programs_chosen_by_the_commit_compile_to_what_is_locked() -> None:
    wrong = []
    for key, program, sass in chosen.by_commit(locked()):
        kernel, (problem, tile) = lock.Kernel(*key), program
        case = Case("lock", kernel.technique, kernel.backend, operators.parse(problem), Tile.parse(tile))
        asked = [case], kernel.arch, kernel.front_end, kernel.ptxas
        (said,) = children.call(locking._compile, *asked, environment=build.environment_of(case))
        if said != sass:
            wrong.append(f"{case}: {said}")
    assert not wrong


def test_rows_of_another_compiler_prove_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proven, "compiler", lambda cell: ("nvcc 14.0", "14.0", "-O3"))
    assert not any(map(proven.compiled, CELLS))
