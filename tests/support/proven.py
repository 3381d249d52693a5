"""What the committed rows prove of the kernels as they are now: `make test` does not compile or run all of it again."""

import re
from functools import cache
from importlib.metadata import version
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest

from cuda_kernels import build, toolchain
from harness import operators
from harness.build.cuda import constants, cuda_compiler
from harness.catalog import sources, techniques
from harness.catalog.entries import Tile
from harness.expressibility import matrix, verdicts
from harness.expressibility.survey import Todo
from harness.inspection import survey
from harness.inspection.survey import Cell
from harness.operators.protocol import Problem
from harness.rows import reading, results
from harness.setup import doctor

RECORDED = sources.ROOT / "reports" / "recorded"
GPUS = ("h100", "h200")
EXPERIMENTS = [
    *product(GPUS, sorted({ladder.experiment for ladder in operators.get(operators.FIRST).ladders})),
    *product(GPUS, ("hopper_grid", "what_triton_misses", "flagship_variants")),
    (results.COMPILERS, "inspect"),
]


@cache
def rows() -> tuple[dict[str, Any], ...]:
    """Rows of today's programs with their machine code: gates that passed on the GPU, and what was only compiled."""
    return tuple(
        row
        for gpu, experiment in EXPERIMENTS
        for row in results.read_recorded(RECORDED, gpu, experiment)
        if row["kind"] in ("gate", "code")
        and row["status"] == "passed"
        and row.get("technique")
        and reading.is_current(row, _Sources())
    )


class _Sources(dict[tuple[str, str], str]):
    """(technique, backend) -> hash of the source that is here."""

    def get(self, key: tuple[str, str], default: Any = None) -> Any:
        return _source(*key) or default


def passed(technique: str, backend: str = "cuda") -> bool:
    """Did this kernel, or the one that it only re-exports, as it is now, pass the numerics gate on a GPU?"""
    if (technique, backend) in _passed():
        return True
    rung = techniques.of_qualified(technique)
    program = sources.same_program(rung.path, backend)
    return program is not None and passed(techniques.qualified(program, rung.operator), backend)


@cache
def _passed() -> set[tuple[str, str]]:
    return {reading.twin(row) for row in rows() if row["kind"] == "gate"}


def code(cell: Cell) -> dict[str, Any] | None:
    """The `code` of this cell that is recorded, of today's source and by the compiler that is here; or None."""
    return _compiled().get(_cell(cell))


def compiled(cell: Cell) -> bool:
    return code(cell) is not None


@cache
def compile_here(cell: Cell) -> dict[str, Any]:
    """The `code` of this cell as the compiler that is here makes it; skips the test where there is none. CUDA builds
    stay in the build folder, so processes share them."""
    if doctor.nvcc() is None:
        pytest.skip("no nvcc here")
    found = survey.inspect_one(*cell, "bundled")
    assert found["status"] == "passed", found["reason"]
    made: dict[str, Any] = found["code"]
    return made


def machine_code(cell: Cell) -> dict[str, Any]:
    """What a row tells; where none does, what is compiled."""
    return code(cell) or compile_here(cell)


def compiler(cell: Cell) -> tuple[str, ...]:
    """What compiles a cell here: the front end, the assembler and, for CUDA, the flags. Triton's follow from the source
    and the tile. Raises ToolchainError."""
    case, arch = cell
    assert arch is not None
    if case.backend == "cuda":
        here = cuda_compiler(SimpleNamespace(flags=build.flags(arch, constants(case))))
        return here["front_end"], here["ptxas"], here["flags"]
    return f"triton {version('triton')}", _triton_ptxas(arch)


def claim(each: Todo) -> bool:
    """Is this proof recorded as it stands now, of the same programs and in this version?"""
    made, proof, version = each
    backend = matrix.backend(made.dialect, version)
    return (made.technique, backend, proof.name, verdicts.source_sha256(proof)) in _claims()


@cache
def _claims() -> set[tuple[str, ...]]:
    rows = results.read_recorded(RECORDED, results.COMPILERS, "expressibility")
    fields = ("technique", "backend", "proof", "source_sha256")
    return {
        tuple(row[field] for field in fields) for row in rows if row["kind"] == "proof" and row["status"] == "passed"
    }


@cache
def _triton_ptxas(arch: str) -> str:
    from triton.backends.nvidia.compiler import get_ptxas_version

    release = re.search(r"V([\d.]+)", get_ptxas_version(int(re.sub(r"\D", "", arch))))
    return release[1] if release else "unknown"


@cache
def _source(technique: str, backend: str) -> str | None:
    try:
        return sources.source_sha256(backend, techniques.of_qualified(technique).path)
    except (KeyError, FileNotFoundError):
        return None


def _cell(cell: Cell) -> tuple[Any, ...]:
    case, arch = cell
    try:
        return _key(case.technique, case.backend, case.problem, case.tile, arch, *compiler(cell))
    except toolchain.ToolchainError:
        return ()


def _key(technique: str | None, backend: str, problem: Problem, tile: Tile | None, *compiler: Any) -> tuple[Any, ...]:
    """What machine code follows from: of a CUDA kernel the flags have all that is compiled into it, which are no
    lengths."""
    return technique, backend, *((None, None) if backend == "cuda" else (problem, tile)), *compiler


@cache
def _compiled() -> dict[tuple[Any, ...], dict[str, Any]]:
    found = {}
    for row in rows():
        if row.get("code"):
            made = row["compiler"]
            words = (made["front_end"], made["ptxas"], *([made["flags"]] if row["backend"] == "cuda" else []))
            problem, tile = reading.problem_of(row), Tile.from_dict(row["tile"])
            found[_key(row["technique"], row["backend"], problem, tile, row["arch"], *words)] = row["code"]
    return found
