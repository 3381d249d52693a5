"""Is NEW slower than BASE? Verdicts over timing rows, a table, an exit code. No file changes unless told to accept.

A change counts when the intervals [minimum, third quartile] are disjoint, in milliseconds and again in SM cycles
(milliseconds x SM clock): a clock that moved is not a kernel that moved.
"""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness import results
from harness.problem import Problem, Tile
from harness.scorecard import gpu_name

Row = Mapping[str, Any]

SAME, FASTER, SLOWER = "SAME", "FASTER", "SLOWER"
AMBIGUOUS, MISSING, INCOMPARABLE = "AMBIGUOUS", "MISSING", "INCOMPARABLE"
FAILING = (SLOWER, MISSING)
STYLES = {FASTER: "green", SLOWER: "bold red", MISSING: "bold red", AMBIGUOUS: "yellow", INCOMPARABLE: "yellow"}

NOISE = 0.005
"""Two timings of one kernel in one run agree within this (the A/A pair); a smaller change is SAME."""

IDENTITY = ("experiment", "technique", "backend", "problem", "tile", "mode", "on", "arch")
"""What makes two rows the same case: a row's key without the hash of its source, which is what changed."""


@dataclass(frozen=True)
class Verdict:
    """One case. `change` is new / base - 1 of the median time: positive is slower."""

    case: str
    verdict: str
    base_ms: float | None = None
    new_ms: float | None = None
    change: float | None = None
    reason: str = ""


class Refused(ValueError):
    """The two files cannot be compared at all."""


def compare(base: Iterable[Row], new: Iterable[Row]) -> list[Verdict]:
    """One verdict per case that BASE timed. Raises Refused when the GPUs differ or no case is in both."""
    base, new = (sorted(results.newest(rows), key=lambda row: row["time"]) for rows in (base, new))
    gpus = [sorted({gpu_name(row) for row in rows if row["kind"] == "environment"}) for rows in (base, new)]
    if gpus[0] != gpus[1] or len(gpus[0]) != 1:
        names = [", ".join(found) or "no environment row" for found in gpus]
        raise Refused(f"BASE is from {names[0]}, NEW from {names[1]}: expected the same GPU")
    before = {_identity(row): row for row in base if row["kind"] == "timing" and row["status"] == "passed"}
    after = {_identity(row): row for row in new if row["kind"] == "timing"}
    if not before.keys() & after.keys():
        raise Refused(f"BASE times {len(before)} cases, NEW {len(after)}, none is in both: run the same experiment")
    return [_verdict(row, after.get(identity)) for identity, row in before.items()]


def exit_code(verdicts: Iterable[Verdict]) -> int:
    """1 when something got slower or disappeared, else 0."""
    return int(any(verdict.verdict in FAILING for verdict in verdicts))


def main(base: Path, new: Path, accept: bool = False, console: Console | None = None) -> int:
    """Compares two files of rows and prints a table. Returns 0, 1 (SLOWER or MISSING) or 2 (refused).

    With `accept` NEW takes BASE's place, whatever the verdicts, unless the comparison is refused.
    """
    console = console or Console()
    try:
        verdicts = compare(results.read(base), results.read(new))
    except ValueError as refusal:  # a file that holds no rows, or rows that cannot be compared
        console.print(Text(f"{INCOMPARABLE}: {refusal}", style="bold red"), soft_wrap=True)
        return 2
    console.print(_table(verdicts))
    console.print(_summary(verdicts))
    if not accept:
        return exit_code(verdicts)
    _replace(base, new)
    console.print(Text(f"accepted: {base} now holds {new}"))
    return 0


def _identity(row: Row) -> str:
    return json.dumps([row.get(name) for name in IDENTITY], sort_keys=True)


def _case(row: Row) -> str:
    tile = Tile.from_dict(row["tile"]).slug if row.get("tile") else ""
    parts = (row["backend"], row.get("technique"), Problem.from_dict(row["problem"]).slug, tile, row.get("mode"))
    return " ".join(part for part in parts if part)


def _verdict(base: Row, new: Row | None) -> Verdict:
    case, base_ms = _case(base), statistics.median(base["samples_ms"])
    if new is None:
        return Verdict(case, MISSING, base_ms, reason="no row in NEW")
    if new["status"] != "passed":
        return Verdict(case, MISSING, base_ms, reason=f"{new['status']}: {new.get('reason')}")
    new_ms = statistics.median(new["samples_ms"])
    change = new_ms / base_ms - 1
    clocks = [(row.get("clocks") or {}).get("sm_mhz") for row in (base, new)]
    in_time = _direction(base["samples_ms"], new["samples_ms"])
    if abs(change) <= NOISE:
        return Verdict(case, SAME, base_ms, new_ms, change)
    if not all(clocks):
        return Verdict(case, AMBIGUOUS, base_ms, new_ms, change, "no SM clock recorded, so not confirmed in cycles")
    cycles = ([sample * clock for sample in row["samples_ms"]] for row, clock in zip((base, new), clocks, strict=True))
    in_cycles = _direction(*cycles)
    if in_time != in_cycles:
        moved = f"SM clock {clocks[0]:.0f} -> {clocks[1]:.0f} MHz"
        reason = f"{moved}: {_words(in_time)} in time, {_words(in_cycles)} in cycles"
        return Verdict(case, AMBIGUOUS, base_ms, new_ms, change, reason)
    if in_time == 0:
        return Verdict(case, AMBIGUOUS, base_ms, new_ms, change, "the medians moved, the intervals overlap")
    return Verdict(case, SLOWER if in_time > 0 else FASTER, base_ms, new_ms, change)


def _direction(base: Iterable[float], new: Iterable[float]) -> int:
    """1 when NEW's interval [minimum, third quartile] lies above BASE's, -1 when below, 0 when they overlap."""
    (base_low, base_high), (new_low, new_high) = _interval(list(base)), _interval(list(new))
    return int(new_low > base_high) - int(new_high < base_low)


def _interval(samples: list[float]) -> tuple[float, float]:
    high = statistics.quantiles(samples, n=4, method="inclusive")[2] if len(samples) > 1 else samples[0]
    return min(samples), high


def _words(direction: int) -> str:
    return {1: "slower", -1: "faster", 0: "no change"}[direction]


def _table(verdicts: list[Verdict]) -> Table:
    table = Table("verdict", "case", "base ms", "new ms", "change", "reason", title="BASE -> NEW (more time is slower)")
    for item in sorted(verdicts, key=lambda item: (item.verdict not in FAILING, item.verdict == SAME, item.case)):
        numbers = [f"{ms:.4f}" if ms is not None else "-" for ms in (item.base_ms, item.new_ms)]
        change = f"{item.change:+.1%}" if item.change is not None else "-"
        texts = (item.case, *numbers, change, item.reason)
        table.add_row(Text(item.verdict, style=STYLES.get(item.verdict, "")), *(Text(text) for text in texts))
    return table


def _summary(verdicts: list[Verdict]) -> Text:
    kinds = (SLOWER, MISSING, FASTER, AMBIGUOUS, SAME)
    tally = {kind: sum(item.verdict == kind for item in verdicts) for kind in kinds}
    return Text(", ".join(f"{count} {kind}" for kind, count in tally.items() if count))


def _replace(base: Path, new: Path) -> None:
    """BASE becomes a copy of NEW, or stays as it is if anything fails on the way."""
    temporary = base.with_name(base.name + ".new")
    with temporary.open("wb") as file:
        file.write(new.read_bytes())
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, base)
