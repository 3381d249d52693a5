"""The benchmark suite itself, run on synthetic rows: storage, comparison, failure, and whose times it says they are."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import synthetic_rows as synthetic
from tests.conftest import CHECKOUT

pytest.importorskip("pytest_benchmark")

SELECTED = ("-k", "xor_swizzle and cuda and d128 and full")


def run(tmp_path: Path, rows: list[dict[str, Any]], *options: str) -> subprocess.CompletedProcess[str]:
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return replay(file, *options)


def replay(file: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "tests/regression", "-p", "no:cacheprovider", *options],
        cwd=CHECKOUT,
        env={**os.environ, "REGRESSION_ROWS": str(file)},
        capture_output=True,
        text=True,
        timeout=240,
    )


def slower(rows: list[dict[str, Any]], factor: float) -> list[dict[str, Any]]:
    return [
        row | {"samples_ms": [sample * factor for sample in row["samples_ms"]]} if "samples_ms" in row else row
        for row in rows
    ]


def test_gpu_times_are_stored_compared_and_guarded(tmp_path: Path) -> None:
    rows = synthetic.rows()
    storage = f"--benchmark-storage={tmp_path / 'storage'}"
    saved = run(tmp_path, rows, *SELECTED, storage, "--benchmark-autosave")
    assert saved.returncode == 0, saved.stdout + saved.stderr
    (path,) = tmp_path.rglob("*.json")
    stored = json.loads(path.read_text())
    (benchmark,) = stored["benchmarks"]
    row = next(
        row
        for row in rows
        if row["kind"] == "timing"
        and (row.get("technique"), row["backend"], row["mode"]) == ("xor_swizzle", "cuda", "burst")
        and row["problem"] == synthetic.PROBLEMS[0].to_dict()
    )
    assert benchmark["stats"]["median"] == pytest.approx(statistics.median(row["samples_ms"]) / 1e3)
    assert benchmark["stats"]["rounds"] == len(row["samples_ms"])
    assert benchmark["options"]["timer"] == "gpu_clock"
    assert benchmark["extra_info"]["source_sha256"] == row["source_sha256"]
    machine = stored["machine_info"]
    assert (machine["gpu"], machine["driver"], machine["replayed"]) == ("NVIDIA H200", "580.159.04", True)
    assert machine["compiler"]["nvcc"] == "13.0.88"

    guard = (*SELECTED, storage, "--benchmark-compare", "--benchmark-compare-fail=median:5%")
    assert run(tmp_path, rows, *guard).returncode == 0
    failed = run(tmp_path, slower(rows, 1.1), *guard)
    assert failed.returncode != 0
    assert "Performance has regressed" in failed.stdout + failed.stderr


def test_a_hole_is_skipped_with_its_reason(tmp_path: Path) -> None:
    done = run(tmp_path, synthetic.rows(), "-rs", "-k", "large_tile and cuda and d128 and causal")
    assert done.returncode == 0, done.stdout
    assert "crashed: worker died with signal 11" in done.stdout


def test_rows_that_are_not_there_are_bad_usage(tmp_path: Path) -> None:
    done = replay(tmp_path / "no.jsonl", *SELECTED)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR, done.stdout
    assert (
        f"REGRESSION_ROWS: got {tmp_path / 'no.jsonl'}, expected a file or folder of rows" in done.stderr + done.stdout
    )


def test_without_pytest_benchmark_nothing_is_collected(tmp_path: Path) -> None:
    done = run(tmp_path, synthetic.rows(), "-p", "no:benchmark")
    assert done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED, done.stdout + done.stderr
