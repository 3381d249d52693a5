"""What CUPTI says of the times by CUDA events, and of what calls do beside their work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from harness.rows import reading
from harness.rows.reading import AGREEMENT
from reports.data.dataset import Dataset, Row


@dataclass(frozen=True)
class Refereed:
    """The newest rows of kind referee of this checkout's kernels and of the libraries: those that `agree`, the
    `others`, and how far `apart` the two medians are at most among those that agree. `scored`: how many kernels and
    libraries, each at a problem and tile, the scorecard's ratios are of; `unseen` are those of them without a row."""

    rows: list[Row]
    scored: int = 0
    unseen: tuple[str, ...] = ()

    @property
    def agree(self) -> list[Row]:
        return [row for row in self.rows if row["status"] == "passed"]

    @property
    def others(self) -> list[Row]:
        return [row for row in self.rows if row["status"] != "passed"]

    @property
    def apart(self) -> float:
        return max((abs(row["details"]["difference"]) for row in self.agree), default=0.0)

    @property
    def experiments(self) -> list[tuple[str, int]]:
        """Which timed them, and how many, the most first."""
        return Counter(row["experiment"] for row in self.rows).most_common()

    @property
    def by_the_allowance(self) -> int:
        """How many agree only because events may read what they read around an empty kernel."""
        return sum(abs(row["details"]["cupti_ms"] / row["details"]["events_ms"] - 1) > AGREEMENT for row in self.agree)


def refereed(datasets: Sequence[Dataset]) -> Refereed:
    """Over all datasets."""
    rows: list[Row] = [
        row
        for data in datasets
        for row in data.newest
        if row["kind"] == "referee" and reading.is_current(row, data.hashes)
    ]
    entries = [entry for data in datasets for entry in data.scores]
    scored, unseen = (
        {(entry["gpu"], kernel) for entry in entries for kernel in entry[which]} for which in ("kernels", "unrefereed")
    )
    return Refereed(rows, len(scored), tuple(kernel for _, kernel in sorted(unseen)))
