"""What CUPTI says of the times by CUDA events, and of what calls do beside their work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.rows import reading
from reports.data.dataset import Dataset, Row


@dataclass(frozen=True)
class Refereed:
    """The newest rows of kind referee of this checkout's kernels and of the libraries: those that `agree`, the
    `others`, and how far `apart` the two medians are at most among those that agree."""

    rows: list[Row]

    @property
    def agree(self) -> list[Row]:
        return [row for row in self.rows if row["status"] == "passed"]

    @property
    def others(self) -> list[Row]:
        return [row for row in self.rows if row["status"] != "passed"]

    @property
    def apart(self) -> float:
        return max((abs(row["details"]["difference"]) for row in self.agree), default=0.0)


def refereed(datasets: Sequence[Dataset]) -> Refereed:
    """Over all datasets."""
    return Refereed(
        [
            row
            for data in datasets
            for row in data.newest
            if row["kind"] == "referee" and reading.is_current(row, data.hashes)
        ]
    )
