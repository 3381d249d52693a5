"""`inspect --binary`: the main loops of anybody's compiled kernels."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.support.checkout import executable
from tests.support.commands import invoke

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
