"""`from harness import check, bench`: frames of what the command line prints, and README's example as it stands."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness import api, bench, check
from harness.catalog.sources import ROOT
from harness.measure import own
from harness.operators.attention.operator import OPERATOR
from harness.operators.attention.problem import Problem
from harness.rows import results
from tests.support import commands, own_kernels
from tests.support.readme import copied_kernel, my_kernel

SMALL = "b1-h2k1-n64-d64-fp16-causal"


def script(file: Path) -> subprocess.CompletedProcess[str]:
    """What a user sees who runs a file; this checkout need not be the one that is installed."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, file], capture_output=True, text=True, env=environment)


@pytest.mark.slow
def test_check_gives_a_line_for_each_kernel_and_problem(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("harness.cli.output.RUNS", tmp_path)
    table = check([own_kernels.output_alone, f"{own_kernels.__file__}:wrong"], [SMALL, Problem.parse(SMALL)], on="cpu")
    lines = table.set_index("kernel").to_dict("index")
    right, wrong = lines["own_kernels.py:output_alone"], lines["own_kernels.py:wrong"]
    assert (right["status"], right["label"], right["backend"], right["problem"]) == ("passed", "no LSE", "own", SMALL)
    assert right["error"] < 2 < wrong["error"]
    assert (wrong["status"], wrong["check"]) == ("wrong", "max_error")
    kept = [row for row in results.read(Path(table.attrs["rows"])) if row["kind"] == "gate"]
    assert [row["status"] for row in kept] == ["passed", "wrong"]


def test_a_time_follows_its_gate_in_one_line() -> None:
    about = {"backend": "own", "kernel": "mine.py:attend", "problem": Problem.parse(SMALL).to_dict()}
    numerics = {"normal": {"max_abs": 0.03, "yardstick": 0.02, "floor": 0.001}, "outliers": {"max_abs": None}}
    code = {"registers": 168, "spill_bytes": 8}
    gate = {**about, "kind": "gate", "status": "passed", "numerics": numerics, "code": code}
    timing = {**about, "kind": "timing", "status": "passed", "samples_ms": [2.0, 1.0, 4.0], "group": "g-01"}
    peer = {**timing, "backend": "sdpa_cudnn", "samples_ms": [1.0], "details": {"label": "no LSE"}}
    del peer["kernel"]
    honest = {**timing, "kind": "cupti", "samples_ms": [9.0]}
    table = api.frame([{"kind": "environment"}, gate, timing, honest, peer], "rows.jsonl")
    assert list(table.kernel) == ["sdpa_cudnn", "mine.py:attend"]
    line = table.iloc[1].to_dict()
    assert (line["ms"], line["error"], line["registers"], line["group"]) == (2.0, 1.5, 168, "g-01")
    assert line["tflops"] == Problem.parse(SMALL).flops / 2.0 / 1e9
    assert (table.label[0], list(table.status)) == ("no LSE", ["passed", "passed"])
    caught = {**honest, "status": "implausible", "check": "other_stream", "reason": "work on another stream"}
    table = api.frame([gate, timing, caught], "rows.jsonl")
    assert (table.ms[0], table.status[0], table.check[0]) == (2.0, "implausible", "other_stream")


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda: check(None), TypeError, "kernels: got None, expected"),
        (lambda: check([]), TypeError, r"kernels: got \[\], expected"),
        (lambda: check(3), TypeError, "kernels: got 3, expected"),
        (lambda: check(b"scalar"), ValueError, "kernel: got "),
        (lambda: check(Path("none.cu")), ValueError, "kernel: got 'none.cu', but there is no file"),
        (lambda: check("attention/scalar", 3), TypeError, "problems: got 3, expected slugs"),
        (lambda: check("attention/scalar", [3]), TypeError, r"problems: got \[3\], expected slugs"),
        (lambda: check("attention/scalar", on="cpu", tile=3), TypeError, "tile: got 3, expected a slug"),
        (
            lambda: check("attention/scalar", "b4-h16-n65536-d128-fp16-full", on="cpu"),
            ValueError,
            "takes this CPU about",
        ),
        (lambda: check("xor_swizzle"), ValueError, "attention/xor_swizzle or gemm/xor_swizzle"),
        (lambda: check("xor_swizle"), ValueError, "got 'xor_swizle', expected a function"),
        (lambda: check(lambda: None), ValueError, "expected a function at the top level of a file"),
        (lambda: check("attention/scalar", "b1"), ValueError, "problem: got 'b1', expected a slug"),
        (lambda: check("attention/scalar", on="tpu"), ValueError, "on: got 'tpu', expected gpu or cpu"),
        (lambda: bench("attention/scalar", "b1"), ValueError, "problem: got 'b1', expected a slug"),
        (lambda: bench("attention/scalar", mode="fast"), ValueError, "mode: got 'fast', expected one of burst"),
        (lambda: bench("attention/scalar", backends=["hip"]), ValueError, "backends: got 'hip', expected some of cuda"),
    ],
)
def test_bad_input_ends_in_a_sentence(call, error: type[Exception], said: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(error, match=said):
        call()


def test_without_a_gpu_it_says_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    for call, what in (
        (lambda: bench("attention/scalar"), "bench"),
        (lambda: check("attention/scalar", on="gpu"), "check(on='gpu')"),
    ):
        with pytest.raises(RuntimeError, match=f"^{re.escape(what)} needs a GPU: torch sees none"):
            call()


@pytest.mark.slow
def test_the_example_of_the_readme_runs(tmp_path: Path) -> None:
    """As it stands but for one small problem: without a GPU it checks, and asks for no times."""
    example, file = my_kernel(), tmp_path / "my_kernel.py"
    assert "bench([attend" in example
    file.write_text(example.replace("check(attend)", f"check(attend, {SMALL.replace('h2k1', 'h2')!r})"))
    done = script(file)
    assert done.returncode == 0, done.stderr
    assert re.search(r"b1-h2-n64-d64-fp16-causal +passed +[01]\.", done.stdout), done.stdout


@pytest.mark.slow
def test_the_file_that_the_readme_copies_passes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """On what `check` takes of its own accord, but for eight that take five times as long as all others: of one query,
    for which this CPU computes a whole tile of rows, and of many heads and keys. Each in two orders of its warps."""
    monkeypatch.setattr("harness.cli.measuring.ON_A_CPU", {"repeats": 2, "scheduler_seeds": (0, 1)})
    file = tmp_path / "my_kernel.cu"
    shutil.copy(copied_kernel(), file)
    every = own.problems(OPERATOR, "cpu")
    slugs = [one.slug for one in every if one.batch * one.heads * one.seq_kv * one.head_dim < 300_000]
    assert len(slugs) == len(every) - 8
    asked = [word for slug in slugs for word in ("--problem", slug)]
    done = commands.run(tmp_path / "runs", "check", str(file), "--on", "cpu", *asked)
    assert done.code == 0, done.told
    assert {row["status"] for row in done.of("gate")} == {"passed"}, done.told


@pytest.mark.gpu
def test_the_example_of_the_readme_runs_unchanged_on_a_gpu(tmp_path: Path) -> None:
    file = tmp_path / "my_kernel.py"
    file.write_text(my_kernel())
    done = script(file)
    told = f"exit code {done.returncode}\n{done.stdout}\n{done.stderr[-6000:]}"
    assert done.returncode == 0, told
    checked, timed = done.stdout.partition("backend")[::2]
    assert re.search(r"-n512-d128-bf16-full +passed +[01]\.", checked), told
    for name in (r"my_kernel\.py:attend +own", "lazy_rescale +cuda", "lazy_rescale +triton", "sdpa_cudnn"):
        assert re.search(rf"{name} +\d+\.\d+", timed), told


@pytest.mark.slow
def test_a_script_that_calls_while_it_is_imported_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By the process of its kernel, which imports it."""
    monkeypatch.setattr("harness.cli.output.RUNS", tmp_path)
    file = tmp_path / "mine.py"
    source = (ROOT / "tests/support/own_kernels.py").read_text()
    file.write_text(f"{source}\nfrom harness import check\ncheck(attend, {SMALL!r}, on='cpu')\n")
    (reason,) = check(f"{file}:attend", SMALL, on="cpu").reason
    assert "got a call while the process that measures imports your file; put it below" in reason
