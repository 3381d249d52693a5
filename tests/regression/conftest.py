"""GPU times for pytest-benchmark, and compare's verdict on each: measured now on a GPU, replayed from rows elsewhere.

    pytest tests/regression --benchmark-autosave
    pytest tests/regression --benchmark-histogram

A case fails if `harness.rows.compare` finds it slower than in the recorded rows of this GPU. REGRESSION_BASE names
other rows to compare with, REGRESSION_ROWS rows to replay instead of measuring: a file or a folder each.
"""

import os
from collections.abc import Generator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from harness.catalog import experiments
from harness.catalog.cases import Case, of_experiment
from harness.measure import runner
from harness.operators.attention.problem import ANCHOR
from harness.rows import compare, results, schema
from harness.rows.frame import frame, table
from tests.conftest import CHECKOUT, why_no_gpu

EXPERIMENT = experiments.load("attention/ladder")
MODE = "burst"
NO_ROW = "no row"
COLUMNS = ["median", "iqr"]
RECORDED = CHECKOUT / "reports" / "recorded"
Row = dict[str, Any]


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    """Without pytest-benchmark there is nothing to do here."""
    return None if config.pluginmanager.hasplugin("benchmark") else True


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """The columns that say something of a GPU's times, unless others are asked for. Rows that are not there are bad
    usage: every case would be skipped, and the suite pass."""
    for name in ("REGRESSION_ROWS", "REGRESSION_BASE"):
        if given := os.environ.get(name):
            try:
                timed = Path(given).exists() and len(read("timing", Path(given))) > 0
            except results.NotRows as refusal:
                raise pytest.UsageError(f"{name}: {refusal}") from None
            if not timed:
                raise pytest.UsageError(f"{name}: got {given}, expected a file or folder of rows, with timings")
    if config.pluginmanager.hasplugin("benchmark") and not config.getoption("benchmark_columns"):
        config.option.benchmark_columns = COLUMNS
        if config.getoption("benchmark_sort") == "min":  # the plugin's default, a column that is not shown
            config.option.benchmark_sort = "median"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: Any) -> Generator[None, None, None]:
    """Says whose times these are if nothing was timed."""
    yield
    if path := replayed():
        without = sum(NO_ROW in str(report.longrepr) for report in terminalreporter.getreports("skipped"))
        holes = f" Cases with {NO_ROW} there: {without}." if without else ""
        terminalreporter.line(f"Nothing was timed here. The times are {gpu()}'s, read from {path}.{holes}")


def replayed() -> Path | None:
    """Where rows are replayed from, None if they are measured."""
    if given := os.environ.get("REGRESSION_ROWS"):
        return Path(given)
    return RECORDED if why_no_gpu() else None


@cache
def read(kind: str, path: Path) -> Any:
    """The table of a file, of a folder, or of the recorded rows of the experiment."""
    if path == RECORDED:
        whole = frame(kind)
        return whole if kind == "environment" else whole[whole.experiment == EXPERIMENT.name]
    return table(kind, rows_of(path))


@cache
def rows_of(path: Path) -> list[Row]:
    files = (
        [path] if path.is_file() else [file for pattern in ("*.jsonl", "*.jsonl.xz") for file in path.rglob(pattern)]
    )
    return [row for file in sorted(files) for row in results.read(file, schema.check)]


@cache
def gpu() -> str | None:
    """The name of the GPU here, or of the newest rows that are replayed."""
    path = replayed()
    if path is None:
        import torch

        return torch.cuda.get_device_name()
    timing = read("timing", path)
    return timing.sort_values("time").gpu.iloc[-1] if len(timing) else None


def cases() -> list[Case]:
    """Every cell of the ladder, at its reference tile and at the one tuned for this GPU."""
    return of_experiment(EXPERIMENT, results.gpu_slug(gpu() or ""))


@pytest.fixture(scope="session")
def measured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file or folder of rows. On a GPU the selected cases are gated and timed together, by the runner."""
    if path := replayed():
        return path
    params = [item.callspec.params["case"] for item in request.session.items if hasattr(item, "callspec")]
    path = tmp_path_factory.mktemp("regression") / "run.jsonl"
    selected = [case for case in params if isinstance(case, Case)]
    runner.run(EXPERIMENT, on="gpu", path=path, modes=(MODE,), selected=selected)
    return path


@pytest.fixture(scope="session")
def rows(measured: Path) -> dict[str, Row]:
    """Case -> its newest timing with `anchor_ms`, or the gate that it failed."""
    found: dict[str, Row] = {}
    gate, timing = (read(kind, measured) for kind in ("gate", "timing"))
    gate = gate[(gate.gpu == gpu()) & (gate.assembler == "own") & (gate.status != "passed")]
    timing = timing[(timing.gpu == gpu()) & (timing.assembler == "own") & (timing["mode"] == MODE)]
    timing = timing[timing.purpose == "timing"]
    anchors = timing[timing.backend == ANCHOR].drop_duplicates(["environment", "group"])
    timing = timing.merge(
        anchors[["environment", "group", "ms"]].rename(columns={"ms": "anchor_ms"}),
        how="left",
        on=["environment", "group"],
    )
    for some in (gate, timing):
        found |= {row["case"]: row for row in some.sort_values("time", kind="stable").to_dict("records")}
    return found


@pytest.fixture(scope="session")
def verdicts(measured: Path) -> dict[str, compare.Verdict]:
    """Case, as compare names it -> its verdict against the base; none where that is what is replayed."""
    base = Path(os.environ.get("REGRESSION_BASE", RECORDED))
    if base == measured:
        return {}
    both = (read("timing", base), read("timing", measured))
    before, after = (some[(some.gpu == gpu()) & (some.experiment == EXPERIMENT.name)] for some in both)
    try:
        found = compare.compare(before, after, frame("timing"))
    except compare.Refused:  # of this GPU nothing is recorded, or not these cases
        return {}
    return {verdict.case: verdict for verdict in found}


@pytest.hookimpl(optionalhook=True)
def pytest_benchmark_update_machine_info(machine_info: dict[str, Any]) -> None:
    """Whose times these are: GPU, driver and compilers instead of the CPU that replays them."""
    path = replayed()
    if path is None:
        from harness.machine import environment

        details = environment.describe()
    else:
        details = read("environment", path).sort_values("time").details.iloc[-1]
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
