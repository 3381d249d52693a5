"""Is NEW slower than BASE? One verdict a case, from two tables of timings and the noise among recorded ones.

A case is judged by its time and its ratio to the library peers of its own group (rows/stats.py says how). A case that
was timed in several processes counts with its mean over them; if both sides timed it on one board, with those.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.rows import results, schema, stats
from harness.rows.frame import frame, table

if TYPE_CHECKING:
    from pandas import DataFrame

SAME, FASTER, SLOWER = "SAME", "FASTER", "SLOWER"
AMBIGUOUS, MISSING, INCOMPARABLE = "AMBIGUOUS", "MISSING", "INCOMPARABLE"
FAILING = (SLOWER, MISSING)
VERDICTS = {0: SAME, 1: SLOWER, -1: FASTER, stats.AMBIGUOUS: AMBIGUOUS}
STYLES = {FASTER: "green", SLOWER: "bold red", MISSING: "bold red", AMBIGUOUS: "yellow", INCOMPARABLE: "yellow"}
NO_ROW = "no row in NEW"
BY_THE_RATIO = "judged by the ratio alone"
FEW_MISSING = 20
"""Cases without a row in NEW that are listed; the rest are counted."""
IDENTITY = ("experiment", "assembler", "technique", "kernel", "backend", "problem", "tile", "mode", "on", "arch")
"""Columns that make a case. A kernel's source is not among them: it is what may have changed."""


@dataclass(frozen=True)
class Verdict:
    """One case. `change` is new / base - 1 of the median time, `ratio_change` the same of the time over the anchors';
    positive is slower. `limit`: how far the one that decides may move although nothing changed. `new_program`: the
    source, compiler or libraries differ in NEW."""

    case: str
    verdict: str
    base_ms: float | None = None
    new_ms: float | None = None
    change: float | None = None
    ratio_change: float | None = None
    one_board: bool | None = None
    limit: float | None = None
    new_program: bool | None = None
    reason: str = ""

    @property
    def anchors(self) -> float | None:
        if self.change is None or self.ratio_change is None:
            return None
        return (1 + self.change) / (1 + self.ratio_change) - 1


class Refused(ValueError):
    """The two cannot be compared at all."""


def compare(
    base: DataFrame,
    new: DataFrame,
    recorded: DataFrame,
    techniques: Collection[str] = (),
) -> list[Verdict]:
    """One verdict for each case that BASE timed, of these `techniques` or kernels of the user's if any are named.

    All are tables of `frame("timing")`; noise comes from `recorded`, without the runs of NEW. Raises Refused if the
    GPUs differ, or no case is on both sides.
    """
    import pandas

    sides = [_timed(side) for side in (base, new)]
    if all(side.empty for side in sides):
        raise Refused("BASE and NEW hold no timing: expected rows of `twinkernels run` or `bench` on a GPU")
    gpus = [sorted(set(side.gpu.dropna())) for side in sides]
    if gpus[0] != gpus[1] or len(gpus[0]) != 1:
        names = [", ".join(found) or "no GPU" for found in gpus]
        raise Refused(
            f"BASE is from {names[0]}, NEW from {names[1]}: expected the same GPU; measure NEW on BASE's GPU by "
            "`twinkernels run`, or name a BASE of NEW's GPU, such as one in reports/recorded"
        )
    before, after = (side.drop_duplicates("case_id", keep="last").set_index("case_id") for side in sides)
    before = before[before.status == "passed"]
    if not set(before.index) & set(after.index):
        raise Refused(f"BASE times {len(before)} cases, NEW {len(after)}, none is in both: run the same experiment")
    if techniques:
        full_names = before.operator + "/" + before.name
        before = before[before.name.isin(list(techniques)) | full_names.isin(list(techniques))]
        if before.empty:
            raise Refused(f"--technique: got {', '.join(techniques)}, of which BASE times no case")
    old, latest = _of_newest(sides[0], before), _of_newest(sides[1], after)
    environments = [set(side.environment.dropna()) for side in sides]
    noise = Noise(recorded[recorded.gpu == gpus[0][0]])
    judged = judge(old, latest, pandas.concat([old, latest]), noise, frozenset(environments[1] - environments[0]))
    several = before.experiment.nunique() > 1
    found = []
    for case_id, row in before.iterrows():
        parts = (row.experiment if several else None, row.backend, row["name"], row.problem, row.tile, row["mode"])
        case = " ".join(part for part in parts if isinstance(part, str) and part)
        there = after.loc[case_id] if case_id in after.index else None
        if there is None or there.status != "passed":
            why = NO_ROW if there is None else f"{there.status}: {there.reason}"
            found.append(Verdict(case, MISSING, row.ms, reason=why))
        else:
            found.append(replace(judged[case_id], case=case))
    return found


def judge(
    base: DataFrame, new: DataFrame, around: DataFrame, noise: Noise, without: frozenset[str] | None = None
) -> dict[Any, Verdict]:
    """A verdict for each `case_id` of the timings on both sides; `around` holds the whole groups. All are tables of
    `stats.measured`. The noise is `without` some environments, by default those that only NEW's side of a case has."""
    both = (
        base.reset_index(drop=True)
        .reset_index()
        .merge(new.reset_index(drop=True).reset_index(), on="case_id", suffixes=("_old", "_new"))
    )
    time, anchors = stats.Shifts(around).between(base.iloc[both.index_old], new.iloc[both.index_new])
    one_board = (both.board_old == both.board_new) & both.board_old.notna()
    both = both.assign(time=time, ratio=time - anchors, one_board=one_board)
    both = both[both.one_board | ~both.case_id.map(both.groupby("case_id").one_board.any())]
    cases = both.groupby("case_id")
    means = cases[["time", "ratio"]].mean().assign(one_board=cases.one_board.all())
    means["new_program"] = cases.program_old.last() != cases.program_new.last()
    means["shortest"] = cases[["ms_old", "ms_new"]].min().min(axis=1)
    for name, side in (("base_ms", base), ("new_ms", new)):
        means[name] = np.exp(side.groupby("case_id").log_ms.mean())
    modes = base.drop_duplicates("case_id").set_index("case_id")["mode"]
    environments = [side.groupby("case_id").environment.agg(frozenset) for side in (base, new)]
    found = {}
    for one in means.itertuples():
        one_board = bool(one.one_board)
        only_new = environments[1][one.Index] - environments[0][one.Index] if without is None else without
        limits = partial(noise.limits, modes[one.Index], one_board, only_new)
        decision = _decision(one.time, one.ratio, one_board, one.shortest, limits)
        ratio_change = None if math.isnan(one.ratio) else math.expm1(one.ratio)
        times = one.base_ms, one.new_ms, math.expm1(one.time), ratio_change
        verdict, limit, reason = decision
        found[one.Index] = Verdict(one.Index, verdict, *times, one_board, limit, bool(one.new_program), reason)
    return found


class Noise:
    """How far timings of unchanged programs move on one GPU."""

    def __init__(self, recorded: DataFrame) -> None:
        self._recorded = recorded
        self._pairs: dict[str, DataFrame] = {}
        self._limits: dict[tuple[str, bool, frozenset[str]], stats.Limits | None] = {}

    def limits(self, mode: str, one_board: bool, without: frozenset[str]) -> stats.Limits | None:
        """Without the pairs that these environments are in. Those of two boards, which are wider, stand in if one board
        has too few pairs."""
        key = mode, one_board, without
        if key not in self._limits:
            pairs = self.pairs(mode)
            judged = pairs.environment_old.isin(without) | pairs.environment_new.isin(without)
            found = stats.limits(pairs.loc[~judged, ["one_board", "time", "anchors", "weight"]], one_board)
            self._limits[key] = found or (self.limits(mode, False, without) if one_board else None)
        return self._limits[key]

    def pairs(self, mode: str) -> DataFrame:
        if mode not in self._pairs:
            self._pairs[mode] = stats.pairs(self._recorded, mode)
        return self._pairs[mode]


def _timed(timing: DataFrame) -> DataFrame:
    """The timings, the oldest first, with `case_id`."""
    timed = timing[timing.purpose == "timing"].sort_values("time", kind="stable")
    parts = timed[list(IDENTITY)].fillna("").astype(str)
    return timed.assign(case_id=parts.iloc[:, 0].str.cat(parts.iloc[:, 1:], sep="|"))


def _of_newest(side: DataFrame, newest: DataFrame) -> DataFrame:
    """Every passed timing of the program that is the newest of its case."""
    mine = stats.measured(side)
    return mine[mine.program == mine.case_id.map(newest.program)]


def _decision(
    time: float, ratio: float, one_board: bool, shortest_ms: float, known: Callable[[], stats.Limits | None]
) -> tuple[str, float | None, str]:
    """The verdict, the limit of what decided, and what else a reader should know."""
    if time == 0 and (ratio == 0 or math.isnan(ratio)):
        return SAME, None, ""
    if not one_board and shortest_ms < stats.SHORTEST_MS:
        why = f"too short to be judged between boards: expected at least {stats.SHORTEST_MS} ms"
        return AMBIGUOUS, None, why
    limits = known()
    if limits is None:
        why = (
            f"its noise is not known: fewer than {stats.FEWEST_PAIRS} pairs of timings recorded on this GPU in its mode"
        )
        return AMBIGUOUS, None, why
    anchors = time - ratio
    decision = VERDICTS[int(stats.judge(np.array(time), np.array(anchors), limits))]
    if math.isnan(ratio):
        return decision, limits.alone, "no library peer in both groups: judged by its time alone"
    if abs(anchors) > limits.anchors:
        moved = f"its anchors moved by {math.expm1(anchors):+.1%}, more than they do by chance"
        return decision, limits.ratio, f"{moved}: {BY_THE_RATIO}"
    if decision == AMBIGUOUS:
        which = "its time, not its ratio to the anchors," if abs(time) > limits.time else "its ratio, not its time,"
        return decision, limits.both, f"{which} moved by more than chance"
    return decision, limits.both, ""


def exit_code(verdicts: Sequence[Verdict]) -> int:
    """1 if a case is slower or missing, 2 if none could be judged, else 0."""
    if any(one.verdict in FAILING for one in verdicts):
        return 1
    return 2 if verdicts and all(one.verdict == AMBIGUOUS and one.limit is None for one in verdicts) else 0


def main(
    base: Path,
    new: Path,
    records: Path,
    *,
    as_json: bool = False,
    techniques: Collection[str] = (),
    console: Console | None = None,
) -> int:
    """Compares two files or folders of rows, prints a table or JSON, returns `exit_code`, or 2 if refused. `records`
    is the folder of recorded rows."""
    console = console or Console()
    try:
        sides = _read("BASE", base), _read("NEW", new)
        found = (
            []
            if sides[0].empty and sides[0].equals(sides[1])
            else compare(*sides, frame("timing", root=records), techniques)
        )
    except ValueError as refusal:  # no rows, or rows that cannot be compared
        if as_json:
            print(json.dumps({"verdict": INCOMPARABLE, "reason": str(refusal)}))
        else:
            console.print(Text(f"{INCOMPARABLE}: {refusal}", style="bold red"), soft_wrap=True)
        return 2
    if as_json:
        print(json.dumps({"tally": tally(found), "verdicts": [asdict(verdict) for verdict in found]}, indent=1))
    else:
        _print(found, console)
    if (code := exit_code(found)) == 2:
        told = (
            "nothing was judged: `twinkernels run EXPERIMENT --replicates 3` and `record` tell how far times move here"
        )
        (console if not as_json else Console(stderr=True)).print(Text(told, style="bold red"), soft_wrap=True)
    return code


def tally(verdicts: Iterable[Verdict]) -> dict[str, int]:
    """Verdict -> how many, the failing ones first; none that is 0."""
    counts = Counter(verdict.verdict for verdict in verdicts)
    return {kind: counts[kind] for kind in (SLOWER, MISSING, FASTER, AMBIGUOUS, SAME) if kind in counts}


def _read(name: str, path: Path) -> DataFrame:
    """The timings of a file, or of all files of a folder, each row checked."""
    files = sorted([*path.rglob("*.jsonl"), *path.rglob(f"*{results.RECORDED}")]) if path.is_dir() else [path]
    rows = [row for file in files for row in results.read(file, schema.check)]
    if not rows:
        raise Refused(f"{name} holds no rows: got {path}, expected those of a run, reports/runs/*.jsonl")
    return table("timing", rows)


def _print(found: Sequence[Verdict], console: Console) -> None:
    """A table of every verdict but SAME, the failing ones first, then counts."""
    without_a_row = sorted((one for one in found if one.reason == NO_ROW), key=lambda one: one.case)
    hidden = set(without_a_row[FEW_MISSING:])
    shown = [one for one in found if one.verdict != SAME and one not in hidden]
    if shown:
        console.print(_table(sorted(shown, key=lambda one: (one.verdict not in FAILING, one.case))))
    if hidden:
        console.print(Text(f"and {len(hidden)} more {MISSING} without a row in NEW; --json has all"))
    console.print(
        Text(", ".join(f"{count} {kind}" for kind, count in tally(found).items()) or "no case is timed in either")
    )
    moved = [one.anchors for one in found if BY_THE_RATIO in one.reason and one.anchors is not None]
    if moved:
        middle = float(np.median(moved))
        console.print(f"{len(moved)} of them {BY_THE_RATIO}: their anchors moved by {middle:+.1%} in the median")


def _table(verdicts: Iterable[Verdict]) -> Table:
    columns = ("verdict", "case", "base ms", "new ms", "time", "ratio", "by chance", "boards", "reason")
    shown = Table(*columns, title="BASE -> NEW (more is slower)")
    for item in verdicts:
        times = [f"{ms:.4f}" if ms is not None else "-" for ms in (item.base_ms, item.new_ms)]
        changes = [f"{change:+.1%}" if change is not None else "-" for change in (item.change, item.ratio_change)]
        limit = f"{item.limit:.1%}" if item.limit is not None else "-"
        boards = {True: "one", False: "two", None: "-"}[item.one_board]
        texts = (item.case, *times, *changes, limit, boards, item.reason)
        shown.add_row(Text(item.verdict, style=STYLES.get(item.verdict, "")), *(Text(text) for text in texts))
    return shown
