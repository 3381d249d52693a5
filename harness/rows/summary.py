"""What a reviewer diffs in place of the rows: one short line for each timed cell, and counts of all else. Standard
library only."""

import csv
import io
from collections import Counter
from collections.abc import Iterable

from harness.rows import reading, results
from harness.rows.reading import Row, tflops

NAME = "summary.csv"
"""Of the file in a folder of recorded runs."""
COLUMNS = ("cell", "tflops", "low", "high", "timings", "status")


def summary(rows: Iterable[Row]) -> str:
    """CSV. A timed cell has its newest median TFLOPS and status; `low` and `high` are the lowest and the highest median
    among its passed `timings` of the same source, empty where it was timed once. Of gates and other rows: how many of a
    kernel have which status."""
    timed: dict[str, list[Row]] = {}
    others: dict[str, Counter[str]] = {}
    for row in rows:
        what = results.what(row)
        if what == "timing":
            timed.setdefault(_cell(row), []).append(row)
        elif what != "environment":
            name = " ".join(part for part in (what, row.get("backend"), row.get("technique")) if part)
            others.setdefault(name, Counter())[row["status"]] += 1
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for cell, found in sorted(timed.items()):
        newest = max(found, key=lambda row: row["time"])
        alike = (row for row in found if row.get("source_sha256") == newest.get("source_sha256"))
        speeds = [tflops(row) for row in alike if row["status"] == "passed" and row.get("samples_ms")]
        speed = f"{tflops(newest):.1f}" if newest.get("samples_ms") else ""
        between = (f"{min(speeds):.1f}", f"{max(speeds):.1f}") if len(speeds) > 1 else ("", "")
        writer.writerow((cell, speed, *between, len(speeds), newest["status"]))
    for name, statuses in sorted(others.items()):
        counts = ", ".join(f"{count} {status}" for status, count in sorted(statuses.items()))
        writer.writerow((name, "", "", "", "", counts))
    return text.getvalue()


def _cell(row: Row) -> str:
    mode = row.get("mode")
    return reading.cell(row) + (f" {mode}" if mode not in (None, "burst") else "")
