"""A kernel of the user's, by the lines that README has: on a GPU, from the command to its table, page and exit code."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from harness import cli
from harness.catalog.sources import ROOT
from harness.measure import runner
from harness.measure.worker import Deadlines
from harness.rows import results, schema
from tests.support import own_kernels, own_triton
from tests.support.readme import my_kernel

pytestmark = pytest.mark.gpu

PROBLEM = ("--problem", "b4-h16-n2048-d128-bf16-causal")
TIMED = {"passed", "not_converged"}
BESIDE = ("lazy_rescale", "--backend", "cuda", "--peer", "sdpa_cudnn")


@pytest.fixture(params=["my_kernel.py:attend", "my_kernel.cu"])
def kernel(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """README's function, and a file by the twin contract."""
    (tmp_path / "my_kernel.py").write_text(my_kernel())
    shutil.copy(ROOT / "cuda_kernels" / "ampere" / "xor_swizzle.cu", tmp_path / "my_kernel.cu")
    return f"{tmp_path}/{request.param}"


def ran(monkeypatch: pytest.MonkeyPatch, folder: Path, *arguments: str) -> tuple[int, str, list[dict]]:
    """Exit code, what was printed, and the rows."""
    monkeypatch.setattr("harness.cli.output.RUNS", folder / "runs")
    done = CliRunner(env={"COLUMNS": "400"}).invoke(cli.app, arguments)
    (file,) = (folder / "runs").rglob("*.jsonl")
    return done.exit_code, done.output, results.read(file, schema.check)


def test_a_kernel_is_checked(kernel: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    code, said, rows = ran(monkeypatch, tmp_path, "check", kernel, *PROBLEM)
    assert code == 0, said
    (gate,) = (row for row in rows if row["kind"] == "gate")
    assert (gate["kernel"], gate["status"], gate["on"]) == (Path(kernel).name, "passed", "gpu")


def test_a_kernel_is_timed_beside_what_is_named_and_has_a_page(
    kernel: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tile = ("--tile", "128x64-s1-w8") if kernel.endswith(".cu") else ()
    code, said, rows = ran(monkeypatch, tmp_path, "bench", kernel, *BESIDE, *tile, *PROBLEM, "--report")
    assert code == 0, said
    timings = [row for row in rows if row["kind"] == "timing"]
    assert {row["backend"] for row in timings} == {"own", "cuda", "sdpa_cudnn"}
    assert {row["status"] for row in timings} <= TIMED
    (mine,) = (row for row in timings if row["backend"] == "own")
    assert mine["group"] in {row["group"] for row in timings if row["backend"] == "sdpa_cudnn"}
    (page,) = tmp_path.rglob("*.html")
    assert f"{Path(kernel).name} beside the ladder" in page.read_text()
    assert "is its page" in said


@pytest.mark.parametrize(
    ("name", "kind", "status", "check"),
    [
        ("crashing", "gate", "crashed", None),
        ("endless", "gate", "timeout", None),
        ("on_another_stream", "referee", "implausible", "other_stream"),
    ],
)
def test_what_is_wrong_with_a_kernel_is_a_row_and_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, kind: str, status: str, check: str | None
) -> None:
    monkeypatch.setattr(runner, "Deadlines", lambda: Deadlines(launch=10))
    file = (own_triton if name == "endless" else own_kernels).__file__
    code, said, rows = ran(monkeypatch, tmp_path, "bench", f"{file}:{name}", "--peer", "sdpa_cudnn", *PROBLEM)
    assert code == 1, said
    (row,) = (row for row in rows if row["kind"] == kind and row.get("kernel"))
    assert (row["status"], row.get("check")) == (status, check), row
    assert f"{status}: {row['kernel']} own" in said
    assert kind == "gate" or "work on another stream" in row["reason"]
    others = {row["status"] for row in rows if row["kind"] == "timing" and row["backend"] == "sdpa_cudnn"}
    assert others, "it costs the others nothing"
    assert others <= TIMED
