"""The files beside the pages: what a figure shows as CSV, and the rows behind it as JSON lines."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from harness.catalog import techniques
from harness.rows import results
from reports.data.dataset import Dataset, Row, grouped

ABOUT = ("technique", "backend", "problem", "tile", "mma", "group", "environment")


@dataclass(frozen=True)
class Download:
    """The numbers of a page's figures and the rows behind them: `name`.csv and .jsonl. A page lists them as "files"."""

    name: str
    lines: Sequence[Mapping[str, Any]]
    rows: Sequence[Row | None]

    def files(self) -> Iterator[tuple[str, str]]:
        """(path in the site, text)"""
        table = pd.DataFrame(self.lines)
        csv = "" if table.empty else table.to_csv(index=False, float_format="%.4g", lineterminator="\n")
        yield f"data/{self.name}.csv", csv
        rows = {
            json.dumps(dict(row), sort_keys=True): None for row in {id(one): one for one in self.rows if one}.values()
        }
        yield f"data/{self.name}.jsonl", "".join(f"{line}\n" for line in rows)


def stem(data: Dataset, experiment: str) -> str:
    """The name of an experiment's files: ladder-h200; gemm-ladder-h200-here for fresh rows of another operator."""
    name = techniques.qualified(experiment, data.operator.name).replace("/", "-")
    return f"{name}-{results.gpu_slug(data.gpu)}{'' if data.recorded else '-here'}"


def stem_of(data: Dataset, experiment: str) -> str:
    """The stem of the files that `experiments` writes of this one, empty where it writes none."""
    return stem(data, experiment) if any(row.usable for row in data.timings(experiment)) else ""


def experiments(data: Dataset) -> Iterator[Download]:
    """One for each experiment: the timings of this checkout's kernels and of libraries."""
    for name, rows in grouped((row for row in data.timings() if row.usable), lambda row: str(row.experiment)).items():
        lines = [
            {**about(row), "mode": row.mode, "tflops": row.speed, "median_ms": row.ms, "samples": len(row.samples_ms)}
            for row in rows
        ]
        yield Download(stem(data, name), lines, rows)


def about(row: Row | None) -> dict[str, Any]:
    """The columns that say what a line is about."""
    return {name: getattr(row, name) for name in ABOUT} if row else {}
