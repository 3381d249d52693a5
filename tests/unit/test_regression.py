"""The benchmark suite itself, run on synthetic rows: storage, comparison, failure, and whose times it says they are."""

import io
import json
import os
import re
import statistics
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from harness.catalog import techniques, tiles
from tests.conftest import CHECKOUT
from tests.regression import conftest as suite
from tests.support import children
from tests.support import synthetic_rows as synthetic
from tests.support.row_file import write

pytest.importorskip("pytest_benchmark")

Row = dict[str, Any]
PROBLEM = synthetic.PROBLEMS[0]
BEST = tiles.best_tile("xor_swizzle", "cuda", PROBLEM, "h200")
REFERENCE = techniques.reference_tile(techniques.get("attention/xor_swizzle"), PROBLEM.head_dim)
SELECTED = "cuda and d128 and (xor_swizzle and full or large_tile and causal or mma_ldmatrix and full)"


def replay(file: Path, *options: str, base: Path | None = None) -> tuple[int, str]:
    """Exit code of the suite and what it printed, in a process that has it imported from its first run on."""
    variables = {"REGRESSION_ROWS": str(file), "REGRESSION_BASE": str(base or file)}
    return children.call(suite_of, variables, options, environment={"REGRESSION_ROWS": ""})


def suite_of(variables: dict[str, str], options: tuple[str, ...]) -> tuple[int, str]:
    """Without the names by which pytest-benchmark would take it for a worker of pytest-xdist, and store nothing."""
    for name in [name for name in os.environ if name.startswith("PYTEST_XDIST")]:
        del os.environ[name]
    os.environ.update(variables)
    os.chdir(CHECKOUT)
    with redirect_stdout(io.StringIO()) as said, redirect_stderr(said):
        code = pytest.main(["-q", "tests/regression", "-p", "no:cacheprovider", *options])
    return int(code), said.getvalue()


def is_kernel(row: Row) -> bool:
    """Whether it is of xor_swizzle, at its reference tile."""
    about = (row["kind"], row.get("technique"), row.get("backend"), row.get("mode"), row.get("problem"))
    return about == ("timing", "xor_swizzle", "cuda", "burst", PROBLEM.to_dict()) and row.get("group") != "before"


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    """With a board, as recorded rows have one, with xor_swizzle at its tuned tile too, and without mma_ldmatrix."""
    board = synthetic.environment(synthetic.ENVIRONMENT["id"], "0b0a4d")
    plain = [row for row in synthetic.rows()[1:] if row.get("technique") != "mma_ldmatrix"]
    assert BEST not in (None, REFERENCE)
    return [board, *plain, *(row | {"tile": BEST.to_dict()} for row in plain if is_kernel(row))]  # type: ignore[union-attr]


@pytest.fixture(scope="module")
def saved(rows: list[Row], tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    """What the suite prints and stores of rows that are as fast as their base."""
    folder = tmp_path_factory.mktemp("saved")
    file, base = write(folder / "rows.jsonl", rows), write(folder / "base.jsonl", rows)
    storage = f"--benchmark-storage={folder / 'storage'}"
    code, said = replay(file, "-k", SELECTED, "-rs", storage, "--benchmark-autosave", base=base)
    assert code == 0, said
    (path,) = (folder / "storage").rglob("*.json")
    return said, json.loads(path.read_text())


@pytest.mark.slow
def test_it_says_whose_times_these_are_and_what_was_left_out(saved: tuple[str, dict[str, Any]]) -> None:
    told, stored = saved
    assert "Nothing was timed here. The times are NVIDIA H200's, read from " in told
    assert re.search(r"Cases with no row there: [1-9]", told)
    assert "crashed: worker died with signal 11" in told
    assert "Median" in told
    assert "StdDev" not in told
    machine = stored["machine_info"]
    assert (machine["gpu"], machine["driver"], machine["replayed"]) == ("NVIDIA H200", "580.159.04", True)
    assert machine["compiler"]["nvcc"] == "13.0.88"


@pytest.mark.slow
def test_gpu_times_are_stored_at_each_tile(saved: tuple[str, dict[str, Any]], rows: list[Row]) -> None:
    stored = {one["name"].rpartition(" ")[2]: one for one in saved[1]["benchmarks"]}
    assert set(stored) == {f"{tile.slug}]" for tile in (BEST, REFERENCE) if tile}
    (benchmark, row) = stored[f"{REFERENCE.slug}]"], next(filter(is_kernel, rows))
    assert benchmark["stats"]["median"] == pytest.approx(statistics.median(row["samples_ms"]) / 1e3)
    assert benchmark["stats"]["rounds"] == len(row["samples_ms"])
    assert benchmark["options"]["timer"] == "gpu_clock"
    assert benchmark["extra_info"]["source_sha256"] == row["source_sha256"]
    anchor = next(one for one in rows if one.get("backend") == "sdpa_cudnn" and one.get("group") == row["group"])
    assert benchmark["extra_info"]["anchor_ms"] == pytest.approx(statistics.median(anchor["samples_ms"]))
    assert benchmark["extra_info"]["board"] == "0b0a4d"


@pytest.mark.slow
def test_a_slowdown_at_one_tile_fails_there_alone(rows: list[Row], tmp_path: Path) -> None:
    slower = [
        row | {"samples_ms": [sample * 1.1 for sample in row["samples_ms"]]}
        if is_kernel(row) and BEST and row["tile"] == BEST.to_dict()
        else row
        for row in rows
    ]
    file, base = write(tmp_path / "rows.jsonl", slower), write(tmp_path / "base.jsonl", rows)
    code, said = replay(file, "-k", SELECTED, base=base)
    assert code == pytest.ExitCode.TESTS_FAILED, said
    last = said[said.index("short test summary") :]
    assert "FAILED tests/regression/test_gpu_times.py::test_gpu_time[xor_swizzle cuda" in last
    assert "is +10.0% slower, by chance up to " in said
    assert BEST.slug in last
    assert REFERENCE.slug not in last


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "REGRESSION_ROWS: got {file}, expected a file or folder of rows"),
        ("", "REGRESSION_ROWS: got {file}, expected a file or folder of rows, with timings"),
        ("no rows\n", "REGRESSION_ROWS: {file}:1: not JSON"),
    ],
)
def test_rows_without_a_timing_are_bad_usage(
    content: str | None, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """Every case would be skipped, and the suite pass."""
    file = tmp_path / "rows.jsonl"
    if content is not None:
        file.write_text(content)
    monkeypatch.setenv("REGRESSION_ROWS", str(file))
    with pytest.raises(pytest.UsageError) as refused:
        suite.pytest_configure(request.config)
    assert str(refused.value).startswith(said.format(file=file))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("samples_ms", value) for value in ([0], ["a"], [], [10**400])),
        ("group", ["a"]),
        ("status", None),
    ],
    ids=str,
)
def test_a_row_that_nothing_can_be_computed_from_is_bad_usage(
    field: str,
    value: object,
    rows: list[Row],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    row = next(row for row in rows if is_kernel(row))
    file = write(tmp_path / "rows.jsonl", [rows[0], {**row, field: value}])
    monkeypatch.setenv("REGRESSION_ROWS", str(file))
    with pytest.raises(pytest.UsageError, match=rf"REGRESSION_ROWS: .*rows\.jsonl:2: row\.{field}"):
        suite.pytest_configure(request.config)


@pytest.mark.slow
def test_a_histogram_is_of_one_ladder_and_language(tmp_path: Path) -> None:
    options = ("-k", "d128-bf16-full", f"--benchmark-histogram={tmp_path / 'drawn'}")
    code, said = replay(CHECKOUT / "reports" / "recorded" / "h200" / "attention" / "ladder", *options)
    assert code == 0, said
    assert "benchmark 'b4-h16-n4096-d128-bf16-full ampere cuda'" in said
    assert "too many benchmarks" not in said
    assert list(tmp_path.glob("drawn-*ampere_cuda.svg"))


@pytest.mark.slow
def test_without_pytest_benchmark_nothing_is_collected(tmp_path: Path) -> None:
    code, said = replay(write(tmp_path / "rows.jsonl", synthetic.rows()), "-p", "no:benchmark")
    assert code == pytest.ExitCode.NO_TESTS_COLLECTED, said
