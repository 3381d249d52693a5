"""GPU times for pytest-benchmark: measured now where there is a GPU, replayed from rows where there is none.

    pytest tests/regression --benchmark-autosave
    pytest tests/regression --benchmark-compare --benchmark-compare-fail=median:5%

REGRESSION_ROWS names a file or folder of rows to replay instead of measuring or of reports/recorded. Verdicts that know
of clocks, missing cases and other GPUs come from `twinkernels compare`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from harness import results, runner
from harness.variants import Case
from tests.conftest import CHECKOUT, why_no_gpu

MODE = "burst"
Row = dict[str, Any]


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    """Without pytest-benchmark there is nothing to do here."""
    return None if config.pluginmanager.hasplugin("benchmark") else True


def replayed() -> Path | None:
    """Where rows are replayed from, None where they are measured."""
    if given := os.environ.get("REGRESSION_ROWS"):
        if not Path(given).exists():  # every case would be skipped, and the suite pass
            pytest.exit(f"REGRESSION_ROWS: got {given}, expected a file or folder of rows", pytest.ExitCode.USAGE_ERROR)
        return Path(given)
    return CHECKOUT / "reports" / "recorded" if why_no_gpu() else None


def read(path: Path) -> list[Row]:
    files = [path] if path.is_file() else sorted(path.rglob("*.jsonl"))
    return [row for file in files for row in results.read(file)]


@pytest.fixture(scope="session")
def rows(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Row]:
    """Timing rows by identity. On a GPU the selected cases are gated and timed together first, by the runner."""
    path = replayed()
    if path is None:
        from experiments.ladder import EXPERIMENT

        selected = [item.callspec.params["case"] for item in request.session.items if hasattr(item, "callspec")]
        selected = [case for case in selected if isinstance(case, Case)]
        path = tmp_path_factory.mktemp("regression") / "run.jsonl"
        runner.run(EXPERIMENT, on="gpu", path=path, modes=(MODE,), selected=selected)
    found: dict[str, Row] = {}
    for row in sorted(results.newest(read(path)), key=lambda row: row["time"]):
        if row["kind"] == "gate" and row["status"] != "passed":
            found.setdefault(identity(row), row)
        elif row["kind"] == "timing" and row.get("mode") == MODE:
            found[identity(row)] = row
    return found


def identity(row: Row) -> str:
    names = ("experiment", "technique", "backend", "problem", "tile")
    return results.key({name: row.get(name) for name in names})


@pytest.hookimpl(optionalhook=True)
def pytest_benchmark_update_machine_info(machine_info: dict[str, Any]) -> None:
    """Whose times these are: GPU, driver and compilers instead of the CPU that replays them."""
    path = replayed()
    if path is None:
        from harness import environment

        details = environment.describe()
    else:
        found = [row for row in read(path) if row["kind"] == "environment"]
        details = max(found, key=lambda row: row["time"])["details"] if found else {}
    gpu = details.get("gpu") or {}
    machine_info.clear()
    machine_info.update(
        node="",
        gpu=gpu.get("name"),
        driver=gpu.get("driver"),
        software=details.get("software"),
        compiler=details.get("toolchain"),
        commit=(details.get("git") or {}).get("sha"),
        replayed=path is not None,
    )
