"""The lock of a machine with a GPU, where there is none: it resolves, and leaves nothing open."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import CHECKOUT


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.full
@pytest.mark.timeout(900)
def test_the_lock_of_a_gpu_resolves_to_one_version_of_each_package(tmp_path: Path) -> None:
    lock = [line for file in ("constraints.txt", "constraints-gpu.txt") for line in (CHECKOUT / file).open()]
    pinned = {plain(line.partition("==")[0]) for line in lock if "==" in line and not line.startswith("#")}
    (torch,) = (line.strip() for line in lock if line.startswith("torch=="))
    report = tmp_path / "report.json"
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet"]
    command += ["--report", str(report), "--constraint", "constraints-gpu.txt", torch, "--editable", ".[dev,nvcc]"]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True)
    if "No matching distribution found for torch" in done.stderr:
        pytest.skip(f"no index in reach has {torch}")
    assert done.returncode == 0, done.stderr[-2000:]
    found = [package["metadata"] for package in json.loads(report.read_text())["install"]]
    required = [line for package in found for line in package.get("requires_dist", [])]
    exact = {plain(match[1]) for line in required if (match := re.match(r"([\w.-]+)(?:\[.*?\])?==[^,]*(;|$)", line))}
    left_open = {plain(package["name"]) for package in found} - pinned - exact - {"twinkernels"}
    assert left_open == set()
