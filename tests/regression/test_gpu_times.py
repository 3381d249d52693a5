"""Every cell of the ladder as a benchmark whose clock is the GPU's."""

from __future__ import annotations

from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from harness.catalog.cases import Case
from harness.rows import reading, tables
from tests.regression.conftest import NO_ROW, cases, identity, replayed


class GpuClock:
    """Stands still but for the launches that are replayed: each moves it by its own time on the GPU, in seconds."""

    __name__ = "gpu_clock"

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds

    def launch(self, milliseconds: float) -> None:
        self.seconds += milliseconds / 1e3


clock = GpuClock()


@pytest.mark.parametrize("case", cases(), ids=str)
@pytest.mark.benchmark(timer=clock)
def test_gpu_time(case: Case, rows: dict[str, dict[str, Any]], benchmark: BenchmarkFixture) -> None:
    wanted = {
        "experiment": case.experiment,
        "technique": case.technique,
        "backend": case.backend,
        "problem": case.problem.to_dict(),
        "tile": case.tile and case.tile.to_dict(),
    }
    row = rows.get(identity(wanted))
    if row is None:
        pytest.skip(f"{NO_ROW} in {replayed()}" if replayed() else "not timed")
    if row["status"] != "passed":
        # Measured now, a kernel's failure is this checkout's; replayed, it is history and only leaves a hole.
        outcome = pytest.fail if tables.failed([row]) and not replayed() else pytest.skip
        outcome(f"{row['status']}: {row['reason']}")
    benchmark.group = case.problem.slug
    benchmark.extra_info |= {
        "tflops": round(reading.tflops(row), 1),
        "anchor_ms": row["anchor_ms"],
        "board": row["board"],
        "clocks": row.get("clocks"),
        "compiler": row.get("compiler"),
        "source_sha256": row.get("source_sha256"),
    }
    samples = iter(row["samples_ms"])
    rounds = len(row["samples_ms"])
    benchmark.pedantic(lambda: clock.launch(next(samples)), rounds=rounds, iterations=1, warmup_rounds=0)
