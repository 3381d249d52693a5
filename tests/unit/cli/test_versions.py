"""`twinkernels versions`: programs that another Triton changed are told from those that it did not."""

import importlib
import json
from pathlib import Path
from typing import Any

import pytest
import typer

from harness.build import tritons
from harness.cli.versions import versions
from harness.expressibility import child, programs
from harness.expressibility.versions import File, difference, of_file
from harness.measure import launches
from tests.unit.build.test_machine_code import SASS

HERE = str(tritons.installed())
MINE = """
import torch
import triton
import triton.language as tl


@triton.jit
def double(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, 2 * tl.load(x_ptr + at, at < n), at < n)


@triton.autotune([triton.Config({"BLOCK": 128}), triton.Config({"BLOCK": 256}, num_warps=8)], key=["n"])
@triton.jit
def tuned(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, at < n), at < n)


@triton.jit
def wrong(x_ptr):
    tl.store(x_ptr, no_such_name)


def run():
    x = torch.randn(1000, device="cuda")
    double[(torch.cuda.get_device_properties(x.device).multi_processor_count,)](x, torch.empty_like(x), 1000, BLOCK=128)
    double[(8,)](x, x, 1000, BLOCK=128)
    tuned[lambda meta: (triton.cdiv(1000, meta["BLOCK"]),)](x, torch.zeros(1000).cuda(), 1000)
    wrong[(1,)](x)
    print(x.sum().item())
"""


def program(name: str = "k", ttgir: str = "%0 = tt.load %x loc(#loc1)\n", **facts: int) -> programs.Texts:
    facts = {"shared": 0, "warps": 4, "registers": 32, "stack": 0} | facts
    sass = SASS.format(name=name, a="0000", b="0010", c="0020", d="0030")
    return {"sass": sass, "ttgir": ttgir, "facts": "\n".join(f"{fact} {value}" for fact, value in facts.items())}


FAILED: programs.Texts = {"words": "lots of IR\nmy.py:3: error: PassManager::run failed\nmore"}
OTHER_CODE = program() | {"sass": program()["sass"].replace("HMMA.16816.F32.BF16", "HGMMA.64x64x16.F32")}


def test_a_difference_is_what_moved_and_where_the_ir_parts() -> None:
    renamed = program("other name", ttgir="#loc = loc(unknown)\n%7 = tt.load %y loc(#loc9)\n")
    assert difference(program(), renamed) == difference(program(), program())
    assert difference(program(), renamed).is_same
    found = difference(program(), OTHER_CODE | {"ttgir": "%c = arith.constant 1\n%0 = tt.dot %x\n", "facts": "stack 8"})
    assert found.moved["HMMA"] == (1, 0)
    assert found.moved["HGMMA"] == (0, 1)
    assert found.moved["spill bytes"] == (0, 8)
    assert found.ttgir == ((1, "%0 = tt.load %x"), (2, "%0 = tt.dot %x"))
    long = "ttg.warp_specialize(" + "%a, " * 90 + ")"
    parts = difference(OTHER_CODE | {"ttgir": f"{long} 240"}, program(ttgir=f"{long} 232")).ttgir
    assert parts[0][1].endswith("240")
    assert difference(FAILED, FAILED).is_same
    assert difference(program(), FAILED).failed == ("", "my.py:3: error: PassManager::run failed")
    assert difference(program(), {}).failed == ("", "no such program")


@pytest.mark.parametrize(
    ("newer", "code", "said"),
    [
        ({"a": program(), "b": program()}, 0, "2 of 2 programs have the same machine code"),
        ({"a": program(), "b": OTHER_CODE}, 3, "1 of 2 programs have the same machine code"),
        ({"a": program(registers=40), "b": program()}, 3, "registers"),
        ({"a": FAILED, "b": program()}, 3, "fails: my.py:3: error: PassManager::run failed"),
        ({"a": program()}, 3, "fails: no such program"),
        ({"a": program(), "b": program(), child.RUN: {"words": "ValueError: no"}}, 1, "run() ended early in 9.9.9"),
    ],
)
def test_the_exit_code_says_whether_something_moved(
    newer: dict[str, programs.Texts],
    code: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(tritons, "is_here", lambda version, dialect="triton": True)
    by_version = {HERE: {"a": program(), "b": program()}, "9.9.9": newer}
    monkeypatch.setattr(programs, "of_file", lambda request, version: {**by_version[version]})
    (tmp_path / "mine.py").write_text("def run(): pass")
    with pytest.raises(typer.Exit) as ended:
        versions([str(tmp_path / "mine.py")], triton=f"{HERE},9.9.9", arch="sm_90a")
    assert ended.value.exit_code == code
    assert said in capsys.readouterr().out


def test_the_newest_is_compared_with_the_installed_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.import_module("harness.cli.versions"), "newest_of_index", lambda: "9.9.9")
    monkeypatch.setattr(tritons, "is_here", lambda version, dialect="triton": version == HERE)
    asked: list[str] = []
    monkeypatch.setattr(tritons, "install", asked.append)
    monkeypatch.setattr(programs, "of_file", lambda request, version: {"a": program()})
    (tmp_path / "mine.py").write_text("def run(): pass")
    with pytest.raises(typer.Exit) as ended:
        versions([str(tmp_path / "mine.py")], newest=True, arch="sm_90a")
    assert (asked, ended.value.exit_code) == (["9.9.9"], 0)


def test_on_a_gpu_only_what_changed_is_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = importlib.import_module("harness.cli.versions")
    monkeypatch.setattr(module, "gpu_is_here", lambda: True)
    monkeypatch.setattr(tritons, "is_here", lambda version, dialect="triton": True)
    made = {"launch": "{}", "cubin": "00"}
    by_version = {
        HERE: {"a": program() | made, "b": program() | made},
        "9.9.9": {"a": program(), "b": OTHER_CODE | made},
    }
    monkeypatch.setattr(programs, "of_file", lambda request, version: {**by_version[version]})
    asked: dict[str, Any] = {}
    monkeypatch.setattr(launches, "run", lambda path, made: asked.update(made) or {"b": {HERE: 0.5, "9.9.9": 0.75}})
    (tmp_path / "mine.py").write_text("def run(): pass")
    with pytest.raises(typer.Exit) as ended:
        versions([str(tmp_path / "mine.py")], triton=f"{HERE},9.9.9", arch="sm_90a")
    assert ended.value.exit_code == 3
    assert asked == {"b": {HERE: made, "9.9.9": made}}
    assert "0.7500" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"names": ["no_file.py"]}, "no file"),
        ({"names": ["{file}", "attention/xor_swizzle"]}, "expected one file, or techniques"),
        ({"names": ["{file}"], "triton": "newest"}, "expected versions such as"),
        ({"names": ["{file}"], "tile": "64x64-s1-w4"}, "--tile"),
        ({"names": ["{file}:kernel"]}, "without --signature"),
        ({"names": ["{file}"], "num_warps": 8}, "--num-warps"),
        ({"names": ["attention/xor_swizzle"], "signature": "i32"}, "--signature"),
        ({"names": ["attention/xor_swizzle"], "tile": "192x80-s1-w4"}, "takes 192x80-s1-w4"),
    ],
)
def test_bad_usage_says_what_is_wrong(options: dict[str, Any], said: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def run(): pass\ndef kernel(): pass")
    options["names"] = [name.format(file=tmp_path / "mine.py") for name in options["names"]]
    with pytest.raises(typer.BadParameter, match=said):
        versions(**{"triton": f"{HERE},9.9.9", "arch": "sm_90a", **options})


@pytest.mark.slow
def test_the_programs_of_a_file_are_those_that_run_launches(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    found, ended = of_file(File(tmp_path / "mine.py", "sm_90a"), [HERE])
    assert list(found) == ["double", "tuned", "tuned 2", "wrong"]
    assert "warps 8" in found["tuned 2"][HERE]["facts"]
    assert "no_such_name" in found["wrong"][HERE]["words"]
    assert all("sass" in found[name][HERE] for name in ("double", "tuned", "tuned 2"))
    assert "meta tensors" in ended[HERE]  # nothing has run: .item() has no number
    signature = File(tmp_path / "mine.py", "sm_80", "double", "*fp16:16, *fp16, i32, 64", (("num_warps", 2),))
    found, ended = of_file(signature, [HERE])
    assert list(found) == ["double"]
    assert "warps 2" in found["double"][HERE]["facts"]
    assert not ended


@pytest.mark.slow
@pytest.mark.skipif(not tritons.is_here("3.9.0"), reason="Triton 3.9.0 is not in build/triton")
def test_two_tritons_that_are_here_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    with pytest.raises(typer.Exit) as ended:
        versions([str(tmp_path / "mine.py")], triton=f"{HERE},3.9.0", arch="sm_90a", as_json=True)
    told = json.loads(capsys.readouterr().out)["programs"]
    assert set(told) == {"double", "tuned", "tuned 2", "wrong"}
    assert ended.value.exit_code == (1 if all(one["3.9.0"]["is_same"] for one in told.values()) else 3)
    assert all(not one["3.9.0"]["failed"][0] for name, one in told.items() if name != "wrong")
