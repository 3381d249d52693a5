"""What `make clean` takes away, and where the report's libraries keep what they make."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import CHECKOUT

MEASURED = ("reports/runs/1-ladder.jsonl", ".benchmarks/Linux/0001_a.json")
MADE = ("build/cpu/scalar.so", "reports/site/index.html", ".venv/bin/python", "harness/__pycache__/a.pyc")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    shutil.copy(CHECKOUT / "Makefile", tmp_path)
    for name in (*MEASURED, *MADE, "reports/recorded/h200/attention/ladder/run.jsonl.xz"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


def make(checkout: Path, target: str) -> str:
    return subprocess.run(["make", target], cwd=checkout, capture_output=True, text=True, check=True).stdout


def test_clean_leaves_what_a_gpu_measured(checkout: Path) -> None:
    make(checkout, "clean")
    assert not any((checkout / name).exists() for name in MADE)
    assert all((checkout / name).exists() for name in MEASURED)


def test_clean_all_lists_what_it_removes(checkout: Path) -> None:
    said = make(checkout, "clean-all")
    assert all(said.index(name) < said.index("rm -rf") for name in MEASURED)
    assert not any((checkout / name).exists() for name in (*MADE, *MEASURED))
    assert (checkout / "reports/recorded/h200/attention/ladder/run.jsonl.xz").exists()


@pytest.mark.slow
def test_caches_of_the_report_stay_inside_the_folder(tmp_path: Path) -> None:
    variables = {name: value for name, value in os.environ.items() if name != "MPLCONFIGDIR"}
    code = "import reports.draw.style, matplotlib; print(matplotlib.get_configdir(), matplotlib.get_cachedir())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=CHECKOUT,
        env=variables | {"TWINKERNELS_CACHE": str(tmp_path / "cache"), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [str(tmp_path / "cache" / "matplotlib")] * 2
