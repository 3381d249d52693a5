"""What Gluon's compiler and the assembler make of a rung, each program once in a process."""

from __future__ import annotations

import importlib
from functools import cache
from types import ModuleType
from typing import Any

from harness.build import machine_code
from harness.catalog import sources, techniques
from harness.catalog.cases import Case
from harness.catalog.entries import Tile
from harness.inspection.survey import MEASURED
from harness.operators.attention.problem import Problem
from tests.support import proven


def module(name: str) -> ModuleType:
    path = sources.kernel_file("gluon", techniques.get(name).path).relative_to(sources.ROOT)
    return importlib.import_module(".".join(path.with_suffix("").parts))


@cache
def compiled(name: str, problem: Problem, tile: Tile, arch: str = "sm_90a") -> Any:
    """Triton's compiled kernel: its texts in `asm`."""
    assert techniques.unsupported(techniques.get(name), "gluon", problem, tile) is None
    return module(name).twin.specialize(problem, None, tile, arch).compile()


@cache
def code(name: str, problem: Problem, tile: Tile, arch: str = "sm_90a") -> dict[str, Any]:
    """The `code` of a row, of what is compiled here."""
    return machine_code.read_triton(compiled(name, problem, tile, arch))


def machine_code_of(name: str, problem: Problem, tile: Tile) -> dict[str, Any]:
    """What a row tells; where none does, what is compiled."""
    return proven.code((Case("inspect", name, "gluon", problem, tile), MEASURED)) or code(name, problem, tile)
