"""Kernels are compiled and read many at once; what one does to its compiler is said in its row alone. And `inspect
--binary`: the main loops of anybody's compiled kernels."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from harness.build import Case
from harness.inspection import survey
from harness.operators.attention.problem import Problem
from harness.rows import making, results
from tests.support.checkout import executable
from tests.support.commands import invoke


def inspect_one(case: Case, arch: str | None, ptxas: str) -> dict[str, Any]:
    """Instead of compiling."""
    if case.technique == "scalar":
        os.abort()
    if case.technique == "mma_ldmatrix":
        raise ValueError("no such instruction")
    return {"status": "passed", "code": {"arch": arch, "ptxas": ptxas, "native": "DISABLE_MMA_V3" not in os.environ}}


@pytest.mark.slow
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


@pytest.mark.slow
def test_code_by_another_assembler_replaces_no_row(tmp_path: Path) -> None:
    """inspect --ptxas shared --save wrote rows that were recorded in place of those by each language's own."""
    from reports.data.loading import of_compilers  # each compiler's process imports this file

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


LOOP = ["HGMMA.64x128x16.F32 R24, gdesc[UR8], R24, gsb0", *["MUFU.EX2 R4, R4"] * 9, "WARPGROUP.DEPBAR.LE gsb0, 0x0"]


def function(name: str, instructions: list[str]) -> str:
    code = [*instructions, "@P0 BRA 0x0", "EXIT"]
    lines = (f"        /*{16 * number:04x}*/    {one} ;   /* 0x00000000000079c5 */" for number, one in enumerate(code))
    return "\n".join([f"\t\tFunction : {name}", *lines, ""])


def reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> tuple[int, str]:
    """Exit code and output of the command, where cuobjdump prints `text`."""
    (tmp_path / "text").write_text(text)
    tool = executable(tmp_path / "cuobjdump", f"#!/bin/sh\ncat {tmp_path}/text\n")
    monkeypatch.setattr("harness.build.machine_code.disassembler", lambda: tool)
    (tmp_path / "lib.so").write_bytes(b"")
    return invoke("inspect", "--binary", str(tmp_path / "lib.so"), "--json")


@pytest.mark.slow
def test_kernels_with_wgmma_in_a_softmax_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = function("attend", LOOP) + function("copy", ["LDG.E R0, desc[UR4][R2.64]"])
    code, said = reading(tmp_path, monkeypatch, text)
    (found,) = json.loads(said)
    assert (code, found["kernel"]) == (0, "attend")
    assert found["main_loop"]["under_products"]["exponentials"] == found["main_loop"]["all"]["exponentials"] == 9


@pytest.mark.parametrize(
    ("text", "told"),
    [("", "got a file without kernels"), (function("copy", ["EXIT"]), "expected a kernel with wgmma")],
)
def test_a_file_without_such_kernels_is_refused(
    text: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, said = reading(tmp_path, monkeypatch, text)
    assert (code, told in said) == (2, True)


def test_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    code, said = invoke("inspect", "--binary", str(tmp_path / "pipe"))
    assert (code, "got no regular file" in said) == (2, True)
