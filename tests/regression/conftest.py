"""GPU times for pytest-benchmark: measured now where there is a GPU, replayed from rows where there is none.

    pytest tests/regression --benchmark-autosave
    pytest tests/regression --benchmark-compare --benchmark-compare-fail=median:5%
    pytest tests/regression --benchmark-histogram

REGRESSION_ROWS names a file or folder of rows to replay instead of measuring or of reports/recorded. Verdicts that know
of anchors, boards, missing cases and other GPUs come from `twinkernels compare`.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Generator
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from experiments.attention.ladder import EXPERIMENT
from harness.catalog import techniques
from harness.catalog.cases import Case, of_experiment
from harness.catalog.problem import ANCHOR
from harness.measure import runner
from harness.rows import noise, reading, results
from harness.rows.reading import gpu_name
from tests.conftest import CHECKOUT, why_no_gpu

MODE = "burst"
NO_ROW = "no row"
COLUMNS = ["median", "iqr"]
BOXES = 74
"""A histogram of pytest-benchmark draws the fastest 75 of a group and leaves out the others. An even number keeps a
case beside its earlier run."""
Row = dict[str, Any]


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    """Without pytest-benchmark there is nothing to do here."""
    return None if config.pluginmanager.hasplugin("benchmark") else True


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """The columns that say something of a GPU's times, unless others are asked for. Rows that are not there are bad
    usage: every case would be skipped, and the suite pass."""
    given = os.environ.get("REGRESSION_ROWS")
    if given:
        try:
            timed = Path(given).exists() and any(row["kind"] == "timing" for row in read(Path(given)))
        except results.NotRows as refusal:
            raise pytest.UsageError(f"REGRESSION_ROWS: {refusal}") from None
        if not timed:
            raise pytest.UsageError(f"REGRESSION_ROWS: got {given}, expected a file or folder of rows, with timings")
    if config.pluginmanager.hasplugin("benchmark") and not config.getoption("benchmark_columns"):
        config.option.benchmark_columns = COLUMNS
        if config.getoption("benchmark_sort") == "min":  # the plugin's default, a column that is not shown
            config.option.benchmark_sort = "median"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: Any) -> Generator[None, None, None]:
    """Names what failed after everything else, and says where nothing was timed. pytest-benchmark raises from inside
    the summary, and a traceback would be the last that is read."""
    try:
        yield
    except Exception as error:
        if type(error).__name__ != "PerformanceRegression":
            raise
        terminalreporter._session.exitstatus = pytest.ExitCode.TESTS_FAILED
    session = getattr(terminalreporter.config, "_benchmarksession", None)
    if path := replayed():
        without = sum(NO_ROW in str(report.longrepr) for report in terminalreporter.getreports("skipped"))
        holes = f" Cases with {NO_ROW} there: {without}." if without else ""
        terminalreporter.line(f"Nothing was timed here. The times are {gpu()}'s, read from {path}.{holes}")
    slower = [f"{name}  {by}" for name, by in session.performance_regressions] if session else []
    failed = [report.nodeid for report in terminalreporter.getreports("failed")]
    if slower or failed:
        terminalreporter.section("failing cases")
        for line in (*failed, *slower):
            terminalreporter.line(line)


def replayed() -> Path | None:
    """Where rows are replayed from, None where they are measured."""
    if given := os.environ.get("REGRESSION_ROWS"):
        return Path(given)
    return CHECKOUT / "reports" / "recorded" if why_no_gpu() else None


@cache
def read(path: Path) -> list[Row]:
    """The rows of a file, of a folder, or of the experiment's files where the folder is that of all recorded rows."""
    if path == CHECKOUT / "reports" / "recorded":
        files = results.recorded(path, experiment=EXPERIMENT.name)
    else:
        files = [path] if path.is_file() else sorted([*path.rglob("*.jsonl"), *path.rglob(f"*{results.RECORDED}")])
    return [row for file in files for row in results.read(file)]


@cache
def gpu() -> str | None:
    """The name of the GPU here, or of the newest rows that are replayed: its tuned tiles are cases too."""
    path = replayed()
    if path is None:
        import torch

        return torch.cuda.get_device_name()
    origins = [row for row in read(path) if row["kind"] == "environment"]
    return gpu_name(max(origins, key=lambda row: row["time"])) if origins else None


def cases() -> list[Case]:
    """Every cell of the ladder, at its reference tile and at the one tuned for this GPU."""
    return of_experiment(EXPERIMENT, results.gpu_slug(gpu() or ""))


@pytest.fixture(scope="session")
def rows(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Row]:
    """Timing rows by identity, with `board` and `anchor_ms`, the median of the anchor of their group. On a GPU the
    selected cases are gated and timed together first, by the runner."""
    path = replayed()
    if path is None:
        selected = [item.callspec.params["case"] for item in request.session.items if hasattr(item, "callspec")]
        selected = [case for case in selected if isinstance(case, Case)]
        path = tmp_path_factory.mktemp("regression") / "run.jsonl"
        runner.run(EXPERIMENT, on="gpu", path=path, modes=(MODE,), selected=selected)
    everything = read(path)
    here = {row["id"] for row in everything if row["kind"] == "environment" and gpu_name(row) == gpu()}
    mine = [row for row in everything if row.get("environment", row.get("id")) in here]
    timings = noise.Timings(mine)
    anchors = {
        noise.group(row): statistics.median(row["samples_ms"]) for row in timings.rows if row["backend"] == ANCHOR
    }
    anchored = (row for row in timings.rows if noise.group(row) in anchors and row.get("mode") == MODE)
    beside = {  # an older timing of one program says more than a newer one whose group had no anchor
        (identity(row), timings.program(row)): row
        for row in sorted(filter(reading.is_as_shipped, anchored), key=lambda row: row["time"])
    }
    found: dict[str, Row] = {}
    shipped = (row for row in results.newest(mine) if reading.is_as_shipped(row))
    for row in sorted(shipped, key=lambda row: row["time"]):
        if row["kind"] == "gate" and row["status"] != "passed":
            found.setdefault(identity(row), row)
        elif row["kind"] == "timing" and row.get("mode") == MODE:
            if noise.group(row) not in anchors:
                row = beside.get((identity(row), timings.program(row)), row)
            context = {"board": timings.board(row), "anchor_ms": anchors.get(noise.group(row))}
            found[identity(row)] = row | context
    return found


@pytest.hookimpl(optionalhook=True, wrapper=True)
def pytest_benchmark_group_stats(config: pytest.Config) -> Generator[None, Any, Any]:
    """Groups as they were asked for; where histograms are drawn, small enough ones."""
    groups = yield
    if not config.getoption("benchmark_histogram"):
        return groups
    return [part for group in groups for part in drawable(*group)]


def drawable(name: str | None, benchmarks: list[Row]) -> list[tuple[str, list[Row]]]:
    """The group in parts that a histogram draws whole: one for each ladder and language, of BOXES at most."""
    name = name or "all"
    if len(benchmarks) <= BOXES:
        return [(name, benchmarks)]
    alike = [(one, list(members)) for one, members in groupby(sorted(benchmarks, key=series), key=series)]
    parts = [(one, members[at : at + BOXES]) for one, members in alike for at in range(0, len(members), BOXES)]
    names = [one for one, _ in parts]
    return [
        (f"{name} {one}" + (f" {names[:place].count(one) + 1}" if names.count(one) > 1 else ""), members)
        for place, (one, members) in enumerate(parts)
    ]


def series(benchmark: Row) -> str:
    """Of which ladder and language a stored benchmark is; its parameter is a case as text."""
    name, backend, *_ = str(benchmark["param"]).split(" ")
    known = {technique.name: technique.ladder for technique in techniques.TECHNIQUES}
    return f"{known[name]} {backend}" if name in known else "libraries"


def identity(row: Row) -> str:
    names = ("experiment", "technique", "backend", "problem", "tile")
    return results.key({name: row.get(name) for name in names})


@pytest.hookimpl(optionalhook=True)
def pytest_benchmark_update_machine_info(machine_info: dict[str, Any]) -> None:
    """Whose times these are: GPU, driver and compilers instead of the CPU that replays them."""
    path = replayed()
    if path is None:
        from harness.machine import environment

        details = environment.describe()
    else:
        found = [row for row in read(path) if row["kind"] == "environment"]
        details = max(found, key=lambda row: row["time"])["details"] if found else {}
    board = details.get("gpu") or {}
    machine_info.clear()
    machine_info.update(
        node="",
        gpu=board.get("name"),
        driver=board.get("driver"),
        software=details.get("software"),
        compiler=details.get("toolchain"),
        commit=(details.get("git") or {}).get("sha"),
        replayed=path is not None,
    )
