"""Kernels are compiled and read many at once; what one does to its compiler is said in its row alone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from harness.build import Case
from harness.inspection import survey
from harness.operators.attention.problem import Problem
from harness.rows import making, results
from reports.data.loading import of_compilers

pytestmark = pytest.mark.slow


def inspect_one(case: Case, arch: str | None, ptxas: str) -> dict[str, Any]:
    """Instead of compiling."""
    if case.technique == "scalar":
        os.abort()
    if case.technique == "mma_ldmatrix":
        raise ValueError("no such instruction")
    return {"status": "passed", "code": {"arch": arch, "ptxas": ptxas, "native": "DISABLE_MMA_V3" not in os.environ}}


def test_a_compiler_that_dies_costs_its_own_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey, "inspect_one", inspect_one)
    names, backends = ("scalar", "mma_ldmatrix", "register_softmax"), ("cuda", "triton_native")
    cells = survey.cells(names, backends, [Problem.square(1, 1, 512, 64)], ("sm_90a",))
    found = dict(survey.inspect(cells, "shared"))
    assert set(found) == set(cells)
    failed = {
        "scalar": {"status": "crashed", "reason": "the process ended: SIGABRT"},
        "mma_ldmatrix": {"status": "crashed", "reason": "ValueError: no such instruction"},
    }
    for (case, arch), fields in found.items():
        native = case.backend == "triton_native"
        passed = {"status": "passed", "code": {"arch": arch, "ptxas": "shared", "native": native}}
        assert fields == failed.get(case.technique or "", passed)


def test_code_by_another_assembler_replaces_no_row(tmp_path: Path) -> None:
    """inspect --ptxas shared --save wrote rows that were recorded in place of those by each language's own."""
    (cell,) = survey.cells(["attention/scalar"], ["triton"], [Problem.square(1, 1, 512, 64)], ("sm_90a",))
    fields = {"status": "unsupported", "reason": "a test"}
    own, shared = (survey.row(cell, fields, ptxas) for ptxas in ("bundled", "shared"))
    assert (own.get("assembler"), shared.get("assembler")) == (None, "shared")
    assert results.key(own) != results.key(shared)
    file = tmp_path / "run.jsonl"
    with results.Writer(file) as writer:
        environment = writer.write(making.environment({"gpu": None}, "cpu"))
        for row in (own, shared):
            writer.write({**row, "environment": environment["id"]})
    (row,) = of_compilers(tmp_path, [file])
    assert row.get("assembler") is None
