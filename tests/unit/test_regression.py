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

from harness.catalog import techniques, tiles
from harness.catalog.entries import Tile
from tests.conftest import CHECKOUT
from tests.regression.conftest import cases
from tests.support import synthetic_rows as synthetic
from tests.support.row_file import write

pytestmark = pytest.mark.slow

pytest.importorskip("pytest_benchmark")

SELECTED = ("-k", "xor_swizzle and cuda and d128 and full")


def run(
    tmp_path: Path, rows: list[dict[str, Any]], *options: str, base: list[dict[str, Any]] | None = None
) -> subprocess.CompletedProcess[str]:
    file = write(tmp_path / "rows.jsonl", rows)
    return replay(file, *options, base=write(tmp_path / "base.jsonl", base) if base else file)


def replay(file: Path, *options: str, base: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Without the names by which pytest-benchmark would take it for a worker of pytest-xdist, and store nothing."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST")}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "tests/regression", "-p", "no:cacheprovider", *options],
        cwd=CHECKOUT,
        env={**inherited, "REGRESSION_ROWS": str(file), "REGRESSION_BASE": str(base or file)},
        capture_output=True,
        text=True,
    )


def test_cases_without_a_row_are_counted_at_the_end(tmp_path: Path) -> None:
    """Also where -r hides which were skipped."""
    selected = sum("xor_swizzle cuda" in str(case) and "d128-bf16-full" in str(case) for case in cases())
    rows = [row for row in synthetic_rows() if row.get("technique") != "xor_swizzle"]
    done = run(tmp_path, rows, *SELECTED, "-rN")
    assert done.returncode == 0, done.stdout
    assert f"read from {tmp_path / 'rows.jsonl'}. Cases with no row there: {selected}.\n" in done.stdout


def slower(rows: list[dict[str, Any]], factor: float) -> list[dict[str, Any]]:
    return [
        row | {"samples_ms": [sample * factor for sample in row["samples_ms"]]} if "samples_ms" in row else row
        for row in rows
    ]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "REGRESSION_ROWS: got {file}, expected a file or folder of rows, with timings"),
        ("no rows\n", "REGRESSION_ROWS: {file}:1: not JSON"),
    ],
)
def test_rows_without_a_timing_are_bad_usage(tmp_path: Path, content: str, said: str) -> None:
    """Every case would be skipped, and the suite pass."""
    file = tmp_path / "rows.jsonl"
    file.write_text(content)
    done = replay(file)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert said.format(file=file) in done.stderr
    assert "Traceback" not in done.stderr


def test_a_histogram_is_of_one_ladder_and_language(tmp_path: Path) -> None:
    options = ("-k", "d128-bf16-full", f"--benchmark-histogram={tmp_path / 'drawn'}")
    done = replay(CHECKOUT / "reports" / "recorded" / "h200" / "attention" / "ladder", *options)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "benchmark 'b4-h16-n4096-d128-bf16-full ampere cuda'" in done.stdout
    assert "too many benchmarks" not in done.stdout + done.stderr
    assert list(tmp_path.glob("drawn-*ampere_cuda.svg"))


def test_gpu_times_are_stored_compared_and_guarded(tmp_path: Path) -> None:
    rows = synthetic_rows()
    storage = f"--benchmark-storage={tmp_path / 'storage'}"
    saved = run(tmp_path, rows, *SELECTED, storage, "--benchmark-autosave")
    assert saved.returncode == 0, saved.stdout + saved.stderr
    assert f"Nothing was timed here. The times are NVIDIA H200's, read from {tmp_path / 'rows.jsonl'}." in saved.stdout
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
    anchor = next(
        other for other in rows if other.get("backend") == "sdpa_cudnn" and other.get("group") == row["group"]
    )
    assert benchmark["extra_info"]["anchor_ms"] == pytest.approx(statistics.median(anchor["samples_ms"]))
    assert benchmark["extra_info"]["board"] == "0b0a4d"
    assert "Median" in saved.stdout
    assert "StdDev" not in saved.stdout
    machine = stored["machine_info"]
    assert (machine["gpu"], machine["driver"], machine["replayed"]) == ("NVIDIA H200", "580.159.04", True)
    assert machine["compiler"]["nvcc"] == "13.0.88"

    assert run(tmp_path, rows, *SELECTED, base=rows).returncode == 0
    kernel = slower([row for row in rows if row.get("technique") == "xor_swizzle"], 1.1)
    others = [row for row in rows if row.get("technique") != "xor_swizzle"]
    failed = run(tmp_path, [*others, *kernel], *SELECTED, base=rows)
    assert failed.returncode == pytest.ExitCode.TESTS_FAILED
    assert "FAILED tests/regression/test_gpu_times.py::test_gpu_time[xor_swizzle cuda" in failed.stdout
    assert "is +10.0% slower, by chance up to " in failed.stdout


def test_the_tuned_tile_is_a_case_and_its_slowdown_is_seen(tmp_path: Path) -> None:
    """Of a kernel that has a reference tile and another in this GPU's table, each is a benchmark."""
    problem = synthetic.PROBLEMS[0]
    best = tiles.best_tile("xor_swizzle", "cuda", problem, "h200")
    reference = techniques.reference_tile(techniques.get("xor_swizzle"), problem.head_dim)
    assert best not in (None, reference)
    plain = synthetic_rows()
    tuned = [row | {"tile": best.to_dict()} for row in plain if is_kernel(row, reference)]  # type: ignore[union-attr]
    storage = f"--benchmark-storage={tmp_path / 'storage'}"
    assert run(tmp_path, [*plain, *tuned], *SELECTED, storage, "--benchmark-autosave").returncode == 0
    (path,) = tmp_path.rglob("*.json")
    names = {benchmark["name"] for benchmark in json.loads(path.read_text())["benchmarks"]}
    assert {name.rpartition(" ")[2] for name in names} == {f"{tile.slug}]" for tile in (best, reference) if tile}
    failed = run(tmp_path, [*plain, *slower(tuned, 1.1)], *SELECTED, base=[*plain, *tuned])
    assert failed.returncode == pytest.ExitCode.TESTS_FAILED
    last = failed.stdout[failed.stdout.index("short test summary") :]
    assert best is not None
    assert best.slug in last
    assert reference.slug not in last


def is_kernel(row: dict[str, Any], tile: Tile) -> bool:
    return (
        (row["kind"], row.get("technique"), row.get("backend"), row.get("mode"), row.get("tile"))
        == ("timing", "xor_swizzle", "cuda", "burst", tile.to_dict())
        and row["problem"] == synthetic.PROBLEMS[0].to_dict()
        and row.get("group") != "before"
    )


def synthetic_rows() -> list[dict[str, Any]]:
    """With a board, as recorded rows have one."""
    return [synthetic.environment(synthetic.ENVIRONMENT["id"], "0b0a4d"), *synthetic.rows()[1:]]


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
