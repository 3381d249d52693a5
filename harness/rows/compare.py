"""Is NEW slower than BASE? Verdicts over timing rows, a table, an exit code. No file changes unless told to accept.

What is judged is a case's time and its ratio to the anchors of its own group; how far both may move though nothing
changed is read from recorded replicates, on one board or on two: harness/rows/noise.py. A case that was timed in
several processes counts with the mean over them.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.rows import files, noise, reading, results, schema
from harness.rows.reading import Row, gpu_name

SAME, FASTER, SLOWER = "SAME", "FASTER", "SLOWER"
AMBIGUOUS, MISSING, INCOMPARABLE = "AMBIGUOUS", "MISSING", "INCOMPARABLE"
FAILING = (SLOWER, MISSING)
NO_ROW = "no row in NEW"
BY_THE_RATIO = "judged by the ratio alone"
VERDICTS = {0: SAME, 1: SLOWER, -1: FASTER, noise.AMBIGUOUS: AMBIGUOUS}
STYLES = {FASTER: "green", SLOWER: "bold red", MISSING: "bold red", AMBIGUOUS: "yellow", INCOMPARABLE: "yellow"}

FEW_MISSING = 20
"""So many cases without a row in NEW are shown; the others are counted."""

IDENTITY = ("experiment", "assembler", "technique", "backend", "kernel", "problem", "tile", "mode", "on", "arch")
"""What makes two rows the same case: a row's key without the hash of its source, which is what changed."""


@dataclass(frozen=True)
class Verdict:
    """One case. `change` is new / base - 1 of the median time, `ratio_change` what is left of it when its anchors'
    change is taken off; positive is slower. `limit` is what the deciding one may reach though nothing changed.
    `new_program`: its source, compiler or libraries are others in NEW."""

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
        """By how much its anchors moved."""
        if self.change is None or self.ratio_change is None:
            return None
        return (1 + self.change) / (1 + self.ratio_change) - 1


class Refused(ValueError):
    """The two cannot be compared at all, or NEW must not be accepted."""


def compare(
    base: Iterable[Row],
    new: Iterable[Row],
    records: Iterable[Row] = (),
    *,
    techniques: Collection[str] = (),
    only_changed: bool = False,
) -> list[Verdict]:
    """One verdict per case that BASE timed, of these `techniques` if any are named.

    `records` are the recorded rows that the noise is taken from, those of other GPUs aside. `techniques` may be kernels
    of the user's too, by the file that rows name. `only_changed` leaves out cases whose program (source, compiler,
    libraries) is the same in both. Raises Refused when the GPUs that timed differ, no case is in both, or BASE timed
    none of the `techniques`. Rows without a timing equal themselves.
    """
    base, new = list(base), list(new)
    for name, rows in (("BASE", base), ("NEW", new)):
        if not rows:
            raise Refused(f"{name} holds no rows: expected those of a run, reports/runs/*.jsonl")
    before, after = _cases(base), _cases(new)
    if not (before or after):
        if base == new:
            return []
        raise Refused("BASE and NEW hold no timing: expected rows of `twinkernels run` or `bench` on a GPU")
    gpus = [_gpus(rows) for rows in (base, new)]
    if gpus[0] != gpus[1] or len(gpus[0]) != 1:
        names = [", ".join(found) or "no environment row" for found in gpus]
        raise Refused(f"BASE is from {names[0]}, NEW from {names[1]}: expected the same GPU")
    passed = {case: rows for case, rows in before.items() if rows[-1]["status"] == "passed"}
    if not passed.keys() & after.keys():
        raise Refused(f"BASE times {len(passed)} cases, NEW {len(after)}, none is in both: run the same experiment")
    if techniques:
        passed = {case: rows for case, rows in passed.items() if reading.name_of(rows[-1]) in techniques}
        if not passed:
            raise Refused(f"--technique: got {', '.join(techniques)}, of which BASE times no case")
    sides = noise.Timings(base), noise.Timings(new)
    judge = _Judge(*sides, _Noise(records, gpus[0][0]), (_runs(sides[0].rows), _runs(sides[1].rows)))
    several = len({rows[-1]["experiment"] for rows in before.values()}) > 1
    return [
        verdict
        for case, rows in passed.items()
        for verdict in [judge.verdict(_name(rows[-1], several), rows, after.get(case, []))]
        if not only_changed or verdict.new_program is not False
    ]


def judge(
    cases: Iterable[tuple[str, Sequence[Row], Sequence[Row]]], rows: Sequence[Row], records: Iterable[Row], gpu: str
) -> list[Verdict]:
    """One verdict for each (name, base, new): timings of one case in two runs, the oldest first, among the `rows` of
    one GPU. `records` are the recorded rows that the noise is taken from, NEW's run aside."""
    timings, known = noise.Timings(rows), _Noise(records, gpu)
    runs = _runs(timings.rows)
    found = []
    for name, base, new in cases:
        mine = _runs(new)
        found.append(_Judge(timings, timings, known, (runs - mine, mine)).verdict(name, base, new))
    return found


def exit_code(verdicts: Iterable[Verdict]) -> int:
    """1 when something got slower or disappeared, else 0."""
    return int(any(verdict.verdict in FAILING for verdict in verdicts))


def main(
    base: Path,
    new: Path,
    records: Path,
    *,
    accept: bool = False,
    as_json: bool = False,
    techniques: Collection[str] = (),
    only_changed: bool = False,
    console: Console | None = None,
) -> int:
    """Compares two files or folders of rows, prints a table or JSON; returns 0, 1 (SLOWER or MISSING) or 2 (refused, or
    no case could be judged).

    `records` is the folder of recorded rows. With `accept` NEW is merged into BASE, whatever is slower, as `record`
    merges a run: what NEW did not time stays. Refused where a case that BASE timed would be lost.
    """
    console = console or Console()
    try:
        keeps = records if base.resolve().is_relative_to(records.resolve()) else None
        rows = _read(base), _read(new, schema.admit if accept and keeps else schema.check)
        found = compare(*rows, _recorded(records, rows), techniques=techniques, only_changed=only_changed)
        if accept:
            with files.locked(keeps or (base if base.is_dir() else base.parent)):
                _accept(base, _read(base), rows[1])
    except ValueError as refusal:  # no rows, rows that cannot be compared, a case that would be lost
        if as_json:
            print(json.dumps({"verdict": INCOMPARABLE, "reason": str(refusal)}))
        else:
            console.print(Text(f"{INCOMPARABLE}: {refusal}", style="bold red"), soft_wrap=True)
        return 2
    if as_json:
        print(json.dumps({"tally": tally(found), "verdicts": [asdict(verdict) for verdict in found]}, indent=1))
    else:
        if any(verdict.verdict != SAME for verdict in found):
            console.print(_table(found))
            if (more := len(_without_a_row(found)) - FEW_MISSING) > 0:
                console.print(Text(f"and {more} more {MISSING} without a row in NEW; --json has all"))
        nothing = "no program changed" if only_changed else "no case is timed in either"
        console.print(Text(", ".join(f"{count} {kind}" for kind, count in tally(found).items()) or nothing))
        if moved := [one.anchors for one in found if BY_THE_RATIO in one.reason and one.anchors is not None]:
            middle = statistics.median(moved)
            console.print(f"{len(moved)} of them {BY_THE_RATIO}: their anchors moved by {middle:+.1%} in the median")
        if accept:
            console.print(Text(f"accepted: {base} now holds {new}"), soft_wrap=True)
    if not accept and found and all(one.verdict == AMBIGUOUS and one.limit is None for one in found):
        told = (
            "nothing was judged: `twinkernels run EXPERIMENT --replicates 3` and `record` tell how far times move here"
        )
        (console if not as_json else Console(stderr=True)).print(Text(told, style="bold red"), soft_wrap=True)
        return 2
    return 0 if accept else exit_code(found)


def tally(verdicts: Iterable[Verdict]) -> dict[str, int]:
    """Verdict -> how many, the failing ones first; none that is 0."""
    kinds = [verdict.verdict for verdict in verdicts]
    return {kind: kinds.count(kind) for kind in (SLOWER, MISSING, FASTER, AMBIGUOUS, SAME) if kind in kinds}


class _Noise:
    """By how much timings of one GPU move, from its recorded rows, which are read once a case asks for it."""

    def __init__(self, records: Iterable[Row], gpu: str) -> None:
        self._records, self._gpu = records, gpu
        self._timings: noise.Timings | None = None
        self._pairs: dict[str, noise.Replicates] = {}
        self._kinds: dict[tuple[str, bool], _Kind] = {}
        self._found: dict[tuple[str, bool, frozenset[str], frozenset[str]], noise.Noise] = {}

    def limit(self, mode: str, one_board: bool, base: frozenset[str], new: frozenset[str]) -> noise.Noise:
        """In a mode of timing, without the pairs that are being judged: between the runs `base` and `new`. Where one
        board has too few replicates those of two boards stand in, which are wider."""
        asked = mode, one_board, base, new
        if asked not in self._found:
            if (mode, one_board) not in self._kinds:
                self._kinds[mode, one_board] = _Kind(noise.Sorted(self._in_mode(mode), one_board))
            found = self._kinds[mode, one_board].without(base - new, new - base)
            if one_board and found.both is None:
                found = self.limit(mode, False, base, new)
            self._found[asked] = found
        return self._found[asked]

    @property
    def timings(self) -> noise.Timings:
        """The recorded rows of the GPU."""
        if self._timings is None:
            records = list(self._records)
            here = {row["id"] for row in records if row["kind"] == "environment" and gpu_name(row) == self._gpu}
            self._timings = noise.Timings(row for row in records if row.get("environment", row.get("id")) in here)
        return self._timings

    def _in_mode(self, mode: str) -> noise.Replicates:
        """The pairs."""
        if mode not in self._pairs:
            self._pairs[mode] = noise.replicates(self.timings, mode)
        return self._pairs[mode]


class _Kind:
    """Pairs of one kind, the level of all of them, the environments that they are of, and for each pair the places of
    its two."""

    def __init__(self, pairs: noise.Sorted) -> None:
        self._pairs, self._levels = pairs, pairs.levels(np.ones(len(pairs.pairs), bool))
        self._runs, places = np.unique(pairs.pairs.environments, return_inverse=True)
        self._places = places.reshape(-1, 2)

    def without(self, base: frozenset[str], new: frozenset[str]) -> noise.Noise:
        """The limits without the pairs between these runs."""
        left, right = (np.isin(self._runs, list(only))[self._places] for only in (base, new))
        return self._pairs.noise(~(left & right[:, ::-1]).any(axis=1), self._levels)


class _Judge:
    """Holds both sides' groups, the noise, and the runs of each side, which have no part in it."""

    def __init__(
        self,
        before: noise.Timings,
        after: noise.Timings,
        known: _Noise,
        runs: tuple[frozenset[str], frozenset[str]],
    ) -> None:
        self._before, self._after = before, after
        self._known, self._runs = known, runs

    def verdict(self, case: str, base: Sequence[Row], new: Sequence[Row]) -> Verdict:
        base_ms = _median_ms(base)
        if not new:
            return Verdict(case, MISSING, base_ms, reason=NO_ROW)
        if new[-1]["status"] != "passed":
            return Verdict(case, MISSING, base_ms, reason=f"{new[-1]['status']}: {new[-1].get('reason')}")
        earlier = [noise.timed(row, self._before) for row in base]
        later = [noise.timed(row, self._after) for row in new]
        shifts = [noise.shift(*pair) for pair in product(earlier, later)]
        time = statistics.fmean(shift.time for shift in shifts)
        ratios = [shift.ratio for shift in shifts if shift.ratio is not None]
        ratio = statistics.fmean(ratios) if ratios else None
        one_board = all(shift.one_board for shift in shifts)
        changed = self._before.program(base[-1]) != self._after.program(new[-1])
        shortest_ms = math.exp(min(one.log_ms for one in (*earlier, *later)))
        if (time or ratio) and shortest_ms < self._known.timings.shortest_ms(one_board):
            decision, limit, reason = self._too_short(shortest_ms)
        else:
            decision, limit, reason = self._judge(time, ratio, base[-1]["mode"], one_board, shifts[0].is_anchor)
        return Verdict(
            case,
            decision,
            base_ms,
            _median_ms(new),
            math.expm1(time),
            None if ratio is None else math.expm1(ratio),
            one_board,
            limit,
            changed,
            reason,
        )

    def _too_short(self, ms: float) -> tuple[str, float | None, str]:
        """Of a kernel that is not judged between boards."""
        gaps, shortest = self._known.timings.gaps, self._known.timings.shortest_ms(one_board=False)
        told = (
            f"too short to be judged between boards: a timing includes {1e3 * gaps[0]:.1f} to {1e3 * gaps[-1]:.1f} us "
            f"that are not the kernel's, by host; expected at least {shortest:.3f} ms"
        )
        return AMBIGUOUS, (gaps[-1] - gaps[0]) / ms, told

    def _judge(
        self, time: float, ratio: float | None, mode: str, one_board: bool, is_anchor: bool
    ) -> tuple[str, float | None, str]:
        """The verdict, the limit of what decided, and what else a reader should know."""
        if time == 0 and not ratio:
            return SAME, None, ""
        limit = self._known.limit(mode, one_board, *self._runs)
        if limit.time is None or limit.both is None or limit.anchors is None:
            known = f"{limit.pairs} pairs of replicates in {mode} mode among the recorded rows of this GPU"
            return AMBIGUOUS, None, f"{known}, expected {noise.EXPECTED}: its noise is not known"
        anchors = math.nan if ratio is None else time - ratio
        decision = VERDICTS[int(noise.judge(time, anchors, is_anchor, limit))]
        if ratio is None:
            alone = limit.anchor if is_anchor and limit.anchor else limit.time
            return decision, alone, "no library peer in both groups: judged by its time alone"
        if abs(anchors) > limit.anchors:
            moved = f"its anchors moved by {math.expm1(anchors):+.1%}, more than they do by chance"
            return decision, limit.ratio, f"{moved}: {BY_THE_RATIO}"
        if decision == AMBIGUOUS:
            which = "its time, not its ratio to the anchors," if abs(time) > limit.time else "its ratio, not its time,"
            return decision, limit.both, f"{which} moved by more than chance"
        return decision, limit.both, ""


def _gpus(rows: Sequence[Row]) -> list[str]:
    """Those that timed; of rows without a timing those of their environments."""
    timed = {row.get("environment") for row in rows if row["kind"] == "timing"}
    return sorted({gpu_name(row) for row in rows if row["kind"] == "environment" and (not timed or row["id"] in timed)})


def _runs(rows: Iterable[Row]) -> frozenset[str]:
    """The environments that timed the rows."""
    return frozenset(str(row.get("environment")) for row in rows)


def _cases(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Identity of a case -> its newest row, after those of the same program that were timed before it and passed."""
    newest = results.newest(rows)
    timings = noise.Timings(newest)
    found: dict[str, list[Row]] = {}
    for row in sorted(newest, key=lambda row: row["time"]):
        if row["kind"] == "timing":
            found.setdefault(json.dumps([row.get(name) for name in IDENTITY], sort_keys=True), []).append(row)
    return {
        case: [
            row
            for row in rows
            if row is rows[-1] or (row["status"] == "passed" and timings.program(row) == timings.program(rows[-1]))
        ]
        for case, rows in found.items()
    }


def _name(row: Row, with_experiment: bool) -> str:
    parts = (row["experiment"] if with_experiment else "", reading.cell(row), row.get("mode"))
    return " ".join(filter(None, parts))


def _median_ms(rows: Sequence[Row]) -> float:
    return math.exp(statistics.fmean(noise.log_ms(row) for row in rows))


def _read(path: Path, check: Callable[[Row], None] = schema.check) -> list[dict[str, Any]]:
    """The rows of a file, or of all files of a folder, each checked."""
    found = sorted([*path.rglob("*.jsonl"), *path.rglob(f"*{results.RECORDED}")]) if path.is_dir() else [path]
    if not found:
        raise Refused(f"{path}: got a folder without .jsonl files, expected rows")
    return [row for file in found for row in results.read(file, check)]


def _recorded(root: Path, sides: Iterable[Iterable[Row]]) -> Iterable[Row]:
    """Rows recorded on the GPUs of both sides, read when they are asked for."""
    names = {gpu_name(row) for rows in sides for row in rows if row["kind"] == "environment"}
    folders = {results.gpu_slug(name) for name in names}
    for gpu, path in results.iter_recorded(root):
        if gpu in folders:
            yield from results.read(path)


def _accept(base: Path, before: Sequence[Row], new: Sequence[Row]) -> None:
    """Merges NEW into BASE: into the file, or in a folder into the file that holds the experiment."""
    lost = _lost(before, _merged([*before, *new]))
    if lost:
        raise Refused(
            f"--accept would lose {len(lost)} cases that BASE timed: {'; '.join(lost)}; {base} stays as it is"
        )
    if not base.is_dir():
        _write(base, _merged([*before, *new]))
        return
    places = {reading.page(row): path for path in sorted(base.rglob("*.jsonl")) for row in results.read(path)}
    for experiment in sorted({str(reading.page(row)) for row in new if row["kind"] != "environment"}):
        path = places.get(experiment, base / f"{experiment}.jsonl")
        kept = results.read(path) if path.exists() else []
        mine = [row for row in new if row["kind"] == "environment" or reading.page(row) == experiment]
        _write(path, _merged([*kept, *mine]))


def _merged(rows: Sequence[Row]) -> list[Row]:
    """Without what newer rows replaced, but with every replicate."""
    measured = {results.key(row) for row in rows if row.get("status", "interrupted") != "interrupted"}
    kept = [row for row in rows if row.get("status") != "interrupted" or results.key(row) not in measured]
    return list(results.newest(kept, replicates=True))


def _write(path: Path, rows: Iterable[Row]) -> None:
    files.replace({path: "".join(f"{results.json_line(results.as_written(row))}\n" for row in rows)})


def _lost(before: Sequence[Row], merged: Sequence[Row]) -> list[str]:
    """Cases that passed before and do not now, with the reason."""
    now = _cases(merged)
    lost = []
    for case, rows in _cases(before).items():
        newest = now.get(case, rows)[-1]
        if rows[-1]["status"] == "passed" != newest["status"]:
            lost.append(f"{_name(rows[-1], False)} ({newest['status']}: {newest.get('reason')})")
    return lost


def _without_a_row(verdicts: Iterable[Verdict]) -> list[Verdict]:
    return sorted((one for one in verdicts if one.reason == NO_ROW), key=lambda one: one.case)


def _table(verdicts: Sequence[Verdict]) -> Table:
    """Every verdict but SAME, the failing ones first; of cases without a row in NEW the first few."""
    columns = ("verdict", "case", "base ms", "new ms", "time", "ratio", "by chance", "boards", "reason")
    table = Table(*columns, title="BASE -> NEW (more is slower)")
    hidden = set(_without_a_row(verdicts)[FEW_MISSING:])
    shown = [item for item in verdicts if item.verdict != SAME and item not in hidden]
    for item in sorted(shown, key=lambda item: (item.verdict not in FAILING, item.case)):
        times = [f"{ms:.4f}" if ms is not None else "-" for ms in (item.base_ms, item.new_ms)]
        changes = [f"{change:+.1%}" if change is not None else "-" for change in (item.change, item.ratio_change)]
        limit = f"{item.limit:.1%}" if item.limit is not None else "-"
        boards = {True: "one", False: "two", None: "-"}[item.one_board]
        texts = (item.case, *times, *changes, limit, boards, item.reason)
        table.add_row(Text(item.verdict, style=STYLES.get(item.verdict, "")), *(Text(text) for text in texts))
    return table
