"""Every cell of the ladder as a benchmark whose clock is the GPU's."""

from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from harness.catalog import techniques
from harness.catalog.cases import Case
from harness.rows import compare, tables
from tests.regression.conftest import MODE, NO_ROW, cases, replayed


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
def test_gpu_time(
    case: Case, rows: dict[str, dict[str, Any]], verdicts: dict[str, compare.Verdict], benchmark: BenchmarkFixture
) -> None:
    row = rows.get(str(case))
    if row is None:
        pytest.skip(f"{NO_ROW} in {replayed()}" if replayed() else "not timed")
    if row["status"] != "passed":
        # Measured now, a kernel's failure is this checkout's; replayed, it is history and only leaves a hole.
        outcome = pytest.fail if tables.failed([row]) and not replayed() else pytest.skip
        outcome(f"{row['status']}: {row['reason']}")
    series = f"{techniques.of_qualified(case.technique).ladder} {case.backend}" if case.technique else "libraries"
    benchmark.group = f"{case.problem.slug} {series}"  # a histogram leaves out what is beyond 75 of a group
    known = {name: row[name] for name in ("anchor_ms", "board", "clocks", "compiler", "source_sha256")}
    known = {name: None if value != value else value for name, value in known.items()}  # NaN
    benchmark.extra_info |= {"tflops": round(row["speed"], 1), **known}
    samples = iter(row["samples_ms"])
    rounds = len(row["samples_ms"])
    benchmark.pedantic(lambda: clock.launch(next(samples)), rounds=rounds, iterations=1, warmup_rounds=0)
    parts = (case.backend, case.name, case.problem.slug, case.tile and case.tile.slug, MODE)
    verdict = verdicts.get(" ".join(filter(None, parts)))
    if verdict and verdict.verdict == compare.SLOWER:
        why = f"; {verdict.reason}" if verdict.reason else ""
        pytest.fail(f"{verdict.case} is {verdict.change:+.1%} slower, by chance up to {verdict.limit:.1%}{why}")
