"""The ratios that the project follows (operators/<operator>/promises.py), from tables of rows.

A ratio compares two timings of one interleaved group; only speeds that an article's own code reached are quoted, and
the entry says so. Timings of an earlier version of a kernel do not count.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

from harness import operators
from harness.catalog import experiments
from harness.catalog.promises import FASTEST, Promise
from harness.operators.protocol import Operator
from harness.rows import ledger, stats

if TYPE_CHECKING:
    from pandas import DataFrame

Row = Mapping[str, Any]
"""A row of `frame("timing")`, as a dictionary."""

SCHEMA = 3
"""Version of what `scorecard` returns."""
GAP_EXPLAINED = "gap_explained"
"""How the names of entries end that are no ratios: the share of a gap that has a cause (rows/ledger.py)."""
ALL_BOARDS = "all boards"
AMONG_THE_BEST = 0.95
"""A final group counts if its kernels reach this share of the fastest with the same instructions: other runs
and boards differ by less."""
FAILURES = ("wrong", "cuda_error", "crashed")
"""Statuses of a gate that a kernel fails, not the machine or a limit."""
COLUMNS = (
    *("name", "technique", "backend", "problem", "tile", "reference_tile", "mma", "source_sha256", "program", "status"),
    *("reason", "current", "usable", "speed", "replicate", "final", "group", "environment", "time"),
)


def scorecard(timing: DataFrame, gate: DataFrame) -> dict[str, Any]:
    """{schema, entries}: an entry for each promise and GPU that ran its experiment, and one for each operator with a
    gap. An operator without a row on a GPU has none there.

    An entry is {name, experiment, ours, gpu, quoted, status, reason, value, interval, worst_cell, caveats, cells}. Its
    `value` is the geometric mean over the cells, one a problem, None while one of them has no value. `quoted` says what
    theirs is if it was not measured beside ours. A cell is {problem, value, interval, ours, theirs (speeds), ours_is,
    theirs_is, case, run} or {problem, reason}. With three processes or more, `value` is the mean over all of them;
    `ours` and `theirs` are of the `run`. Intervals are stats.Interval.to_dict(). `caveats` are sentences without an
    end: failed gates, and times that CUPTI does not confirm.

    The value of a gap's entry is the share on the operator's headline problem; the entry has a `goal`, and its cells
    have `boards`, board -> share, and `missed`: where the share is below the goal, ALL_BOARDS or the name of one.
    """
    timings = stats.Timings(timing)
    own = timing[timing.assembler == "own"]
    asked = {promise.experiment for operator in operators.every() for promise in operator.promises()}
    rows = _by_experiment(own[(own.purpose == "timing") & own.experiment.isin(asked)])
    entries = []
    known = timing[timing.gpu.notna()]
    seen = set(zip(known.gpu, known.operator, strict=True))
    for gpu, major in sorted(set(zip(known.gpu, known.major, strict=True))):
        doubts = Doubts(own[own.gpu == gpu], gate[(gate.gpu == gpu) & (gate.assembler == "own")])
        ledgers = ledger.ledgers(timing[timing.gpu == gpu], timings=timings)
        for operator in operators.every():
            if (gpu, operator.name) not in seen:
                continue
            capabilities = {ladder.name: ladder.capabilities for ladder in operator.ladders}
            for promise in operator.promises():
                here = rows.get((gpu, operator.name, promise.experiment, promise.mode), [])
                runs = promise.ladder and major in capabilities[promise.ladder]
                if (runs or here) and (promise.quoted is None or promise.quoted.gpu == gpu):
                    entries.append(_entry(promise, operator, gpu, here, timings, doubts))
            prices = operator.prices and operator.prices()
            if prices and major in capabilities[prices.LADDER]:
                mine = [one for one in ledgers if one.prices is prices]
                entries.append(_gap_explained(gpu, prices, mine, doubts))
    return {"schema": SCHEMA, "entries": entries}


def _by_experiment(timing: DataFrame) -> dict[Any, list[Row]]:
    """(gpu, operator, experiment, mode) -> its timings, the oldest first."""
    ordered = timing.sort_values("time", kind="stable")
    table = ordered[list(COLUMNS)].astype(object).where(ordered[list(COLUMNS)].notna(), None)
    found = defaultdict(list)
    places = zip(ordered.gpu, ordered.operator, ordered.experiment, ordered["mode"], strict=True)
    for place, row in zip(places, table.to_dict("records"), strict=True):
        found[place].append(row)
    return found


class Doubts:
    """What the rows of a GPU say against kernels that passed the gate before their timing."""

    def __init__(self, timing: DataFrame, gate: DataFrame) -> None:
        gate = gate[gate.tool.isna() & gate.technique.notna()]
        version = gate.source_sha256.str.cat(gate.backend, sep=" ")
        program = version.str.cat([gate.technique, gate.problem, gate.tile], sep=" ")
        failed = gate.status.isin(FAILURES)
        unsteady = failed & program.isin(set(program[gate.status == "passed"]))
        self._failed_at = set(program[failed].index.map(lambda at: (version[at], gate.technique[at], gate.tile[at])))
        self._unsteady = set(version[unsteady].str.cat(gate.technique[unsteady], sep=" "))
        cupti = timing[timing.purpose == "cupti"].sort_values("time", kind="stable")
        newest = cupti.drop_duplicates("program", keep="last")
        self._disagrees = set(newest[newest.status != "passed"].program)

    def about(self, cells: Iterable[Iterable[Row]]) -> list[str]:
        """Sentences about the kernels of an entry, a few for each of its cells."""
        cells = [list(rows) for rows in cells]
        failed = sum(any(map(self._failed, rows)) for rows in cells)
        kernels = {row["program"] for rows in cells for row in rows}
        found = []
        if failed:
            found.append(
                f"on {failed} of {len(cells)} problems one of the kernels failed another gate, though it passed the "
                "gate before its timing"
            )
        if disagreeing := len(kernels & self._disagrees):
            found.append(f"of {disagreeing} of {len(kernels)} programs CUPTI measured another time than the events")
        return found

    def _failed(self, row: Row) -> bool:
        """True if the kernel failed a gate at this tile, or failed one that it passed another time."""
        version = f"{row['source_sha256']} {row['backend']}"
        here = version, row["technique"], row["tile"]
        return here in self._failed_at or f"{version} {row['technique']}" in self._unsteady


def _entry(
    promise: Promise, operator: Operator, gpu: str, rows: list[Row], timings: stats.Timings, doubts: Doubts
) -> dict[str, Any]:
    here: dict[str, list[Row]] = defaultdict(list)
    varying = {rung.name for rung in operator.techniques if promise.repeats and not rung.repeats}
    for row in rows:
        counts = promise.technique in (None, row["technique"]) and row["technique"] not in varying
        if counts or row["backend"] != "cuda":
            here[row["problem"]].append(row)
    problems = promise.quoted.speeds if promise.quoted else [promise.problem] if promise.problem else None
    if problems is None:
        problems = [problem.slug for problem in experiments.load(operator.experiment(promise.experiment)).problems]
    find = _quoted if promise.quoted else _fastest if promise.theirs == FASTEST else _measured
    order = problems if promise.quoted else sorted(problems)
    found = [find(promise, problem, here[problem], timings) for problem in order]
    cells = [{"problem": problem, **cell} for problem, (cell, *_) in zip(order, found, strict=True)]
    holes = _together(cells)
    if not rows:
        name = operator.experiment(promise.experiment)
        holes = [f"{name} was not run on this GPU: `twinkernels run {name}`"]
    values = [cell["value"] for cell in cells if "value" in cell]
    ratios = [ratio for _, ratio, _ in found if ratio]
    return {
        "name": promise.name,
        "experiment": promise.experiment,
        "ours": promise.ours,
        "gpu": gpu,
        "quoted": promise.quoted and f"quoted: {promise.quoted.what}, measured separately on an {gpu}",
        "status": "incomplete" if holes else "complete",
        "reason": "; ".join(holes) or None,
        "value": None if holes else math.exp(math.fsum(map(math.log, values)) / len(values)),
        "interval": None if holes else stats.mean(ratios).interval.to_dict(),
        "worst_cell": None if holes else min(cells, key=lambda cell: cell["value"])["problem"],
        "caveats": doubts.about(rows for _, _, rows in found),
        "cells": cells,
    }


def _together(cells: list[dict[str, Any]]) -> list[str]:
    """Reasons of incomplete cells, each with its problems: a library that is missing everywhere is one line."""
    problems: dict[str, list[str]] = defaultdict(list)
    for cell in cells:
        if "reason" in cell:
            problems[cell["reason"]].append(cell["problem"])
    return [
        f"{names[0]}: {reason}" if len(names) == 1 else f"{len(names)} of {len(cells)} problems: {reason}"
        for reason, names in problems.items()
    ]


def _gap_explained(gpu: str, prices: Any, found: list[ledger.Ledger], doubts: Doubts) -> dict[str, Any]:
    """How much of the gap has a cause, on each problem that was timed."""
    cells = [_explained(one) for one in found]
    headline = next((cell for cell in cells if cell["problem"] == prices.HEADLINE.slug), {"reason": "not timed"})
    reason = f"{prices.HEADLINE.slug}: {headline['reason']}" if "reason" in headline else None
    if not found:
        reason = f"{prices.EXPERIMENT} was not run on this GPU: `twinkernels run {prices.EXPERIMENT}`"
    values = {cell["problem"]: cell["value"] for cell in cells if "value" in cell}
    return {
        "name": prices.NAME,
        "experiment": prices.EXPERIMENT,
        "ours": "cuda",
        "gpu": gpu,
        "quoted": None,
        "status": "incomplete" if reason else "complete",
        "reason": reason,
        "value": headline.get("value"),
        "interval": headline.get("interval"),
        "worst_cell": None if reason else min(values, key=values.__getitem__),
        "goal": prices.GOAL,
        "caveats": doubts.about(
            [one.rows[end] for end in (prices.FLAGSHIP, prices.START) if end in one.rows] for one in found
        ),
        "cells": cells,
    }


def _explained(one: ledger.Ledger) -> dict[str, Any]:
    if one.explained is None:
        return {"problem": one.problem.slug, "reason": one.holes or "no group timed both ends"}
    value, interval = one.explained
    ends = one.prices.FLAGSHIP, one.prices.START
    ours, theirs = (one.rows[end] for end in ends)
    goal = one.prices.GOAL
    return {
        "problem": one.problem.slug,
        "value": value,
        "interval": interval.to_dict(),
        "boards": one.shares,
        "missed": [where for where, share in {ALL_BOARDS: value, **one.shares}.items() if share < goal],
        "ours": one.speed(ends[0]),
        "theirs": one.speed(ends[1]),
        "ours_is": _name(ours),
        "theirs_is": _name(theirs),
        "case": _case(ours),
        "run": ours["environment"],
    }


Found = tuple[dict[str, Any], stats.Estimate | None, list[Row]]
"""A cell, the logarithm of its ratio, and the rows it compares."""


def _measured(promise: Promise, problem: str, here: list[Row], timings: stats.Timings) -> Found:
    """The fastest of both sides in the newest final group, or else of all groups."""
    ours, why_ours = _best(promise.ours, here)
    theirs, why_theirs = _best(promise.theirs, here)
    if final := _final(promise, here):
        ours, theirs = final
    if ours is None or theirs is None:
        return {"reason": why_ours or why_theirs}, None, []
    if not _met(ours, theirs):  # the newest row of one side may be in a group without the other
        mine, beside = ([row for row in here if row["usable"] and _case(row) == _case(of)] for of in (ours, theirs))
        both = [pair for pair in product(mine, beside) if _met(*pair)]
        ours, theirs = max(both, key=lambda pair: str(pair[0]["time"]), default=(ours, theirs))
    if not _comparable(ours, theirs):
        return {"reason": f"different instruction classes: {ours['mma']}, {theirs['mma']}"}, None, []
    if not _met(ours, theirs):
        return {"reason": f"{_name(ours)} and {_name(theirs)} were not timed in one group"}, None, []
    return _compared(ours, theirs, timings)


def _compared(ours: Row, theirs: Row, timings: stats.Timings) -> Found:
    """Two rows of one group."""
    ratio = timings.ratio(ours["program"], theirs["program"])
    assert ratio is not None
    value = math.exp(ratio.value) if ratio.is_settled else ours["speed"] / theirs["speed"]
    return _cell(value, ratio, ours, theirs["speed"], _name(theirs)), ratio, [ours, theirs]


def _fastest(promise: Promise, problem: str, here: list[Row], timings: stats.Timings) -> Found:
    """Our fastest kernel and tile over the rival that is fastest over all processes, all rivals timed beside the same
    samples of ours: groups of a run that lacked one do not count where another run had all. Which rival that is does
    not depend on our tile, so that another tile needs to be timed beside this one alone."""
    met: dict[Any, set[str]] = defaultdict(set)
    for row in here:
        if row["usable"]:
            met[row["environment"], row["group"]].add(row["backend"])
    whole = [row for row in here if met[row["environment"], row["group"]] >= {promise.ours, *promise.rivals}]
    found = [_measured(replace(promise, theirs=rival), problem, whole or here, timings) for rival in promise.rivals]
    if hole := next((one for one in found if "reason" in one[0]), None):
        return hole
    if len({id(rows[0]) for _, _, rows in found}) > 1:
        return {"reason": f"{', '.join(promise.rivals)} were not timed in one group"}, None, []
    beside = min(found, key=_value)
    mine, peers = ([row for row in here if row["usable"] and row["backend"] == one["backend"]] for one in beside[2])
    tiles = {row["program"]: (row, peer) for row in mine for peer in peers if _met(row, peer)}
    return max([beside, *(_compared(*pair, timings) for pair in tiles.values())], key=_value)


def _value(found: Found) -> float:
    return float(found[0]["value"])


def _quoted(promise: Promise, problem: str, here: list[Row], timings: stats.Timings) -> Found:
    """Our fastest, of the newest final group if there is one, over a speed without samples."""
    assert promise.quoted
    ours, why = next(iter(_finals(promise.ours, here)), None), None
    if ours is None:
        ours, why = _best(promise.ours, here)
    if ours is None:
        return {"reason": why}, None, []
    theirs = promise.quoted.speeds[problem]
    speed = timings.estimate({ours["program"]: 1.0})
    assert speed is not None
    ratio = speed.over(theirs)
    what = f"quoted: {promise.quoted.what}, measured separately on an {promise.quoted.gpu}"
    cell = _cell(math.exp(ratio.value), ratio, ours, theirs, what) | {"ours": math.exp(speed.value)}
    return cell, ratio, [ours]


def _cell(value: float, ratio: stats.Estimate, ours: Row, theirs: float, theirs_is: str) -> dict[str, Any]:
    return {
        "value": value,
        "ours": ours["speed"],
        "theirs": theirs,
        "ours_is": _name(ours),
        "theirs_is": theirs_is,
        "case": _case(ours),
        "run": ours["environment"],
        "interval": ratio.interval.to_dict(),
    }


def _newest(here: Iterable[Row]) -> list[Row]:
    """The newest timing of each cell; of replicates, and of peers in several groups, one each."""
    found = {}
    for row in here:
        cell = (row[name] for name in ("name", "backend", "tile", "source_sha256", "replicate"))
        found[*cell, row["group"] if _is_peer(row) else None] = row
    return list(found.values())


def _best(backend: str, here: list[Row]) -> tuple[Row | None, str | None]:
    """The fastest technique of a backend, each at its tuned tile if that was timed, or None and why. If a faster one
    did not converge, the rest is not the best."""
    mine = [row for row in _newest(here) if row["backend"] == backend]
    usable = sorted((row for row in mine if row["usable"]), key=lambda row: (not row["reference_tile"], row["time"]))
    if usable:
        picked = {row["name"]: row for row in usable}
        best = max(picked.values(), key=_speed)
        unsettled = [row for row in mine if row["status"] == "not_converged" and row["current"] and row["speed"]]
        faster = max(unsettled, key=_speed, default=best)
        if faster["speed"] > best["speed"]:
            return None, f"{_name(faster)} was faster and did not converge"
        return best, None
    if not mine:
        return None, f"{backend}: no row"
    if any(row["status"] == "passed" for row in mine):
        return None, f"{backend}: only rows of an earlier version of the kernel"
    newest = max(mine, key=lambda row: row["time"])
    return None, f"{backend}: {newest['status']}, {newest['reason']}"


def _final(promise: Promise, here: list[Row]) -> tuple[Row, Row] | None:
    """Both sides from the newest final group that has them: these were chosen before its samples were taken. Groups of
    runs that timed few techniques are passed over. A kernel is judged by its fastest process, because under load a
    board may slow down a whole group."""
    fastest: dict[Any, float] = defaultdict(float)
    for row in _newest(here):
        if row["usable"]:
            for alike in ((row["backend"], row["mma"]), _case(row)):
                fastest[alike] = max(fastest[alike], row["speed"])

    def is_among_the_best(row: Row) -> bool:
        own = max(fastest[_case(row)], row["speed"])
        return bool(own >= AMONG_THE_BEST * fastest[row["backend"], row["mma"]])

    for ours in filter(is_among_the_best, _finals(promise.ours, here)):
        for theirs in here:
            beside = theirs["backend"] == promise.theirs and theirs["usable"] and _met(ours, theirs)
            if beside and is_among_the_best(theirs) and _comparable(ours, theirs):
                return ours, theirs
    return None


def _finals(backend: str, here: list[Row]) -> list[Row]:
    """A backend's usable timings in final groups, the newest first."""
    found = [row for row in _newest(here) if row["backend"] == backend and row["final"] and row["usable"]]
    return sorted(found, key=lambda row: str(row["time"]), reverse=True)


def _speed(row: Row) -> float:
    return float(row["speed"])


def _met(ours: Row, theirs: Row) -> bool:
    return (ours["environment"], ours["group"]) == (theirs["environment"], theirs["group"])


def _is_peer(row: Row) -> bool:
    return row["name"] is None


def _comparable(ours: Row, theirs: Row) -> bool:
    """True if theirs is a library or has the same instruction class."""
    return _is_peer(theirs) or ours["mma"] == theirs["mma"]


def _case(row: Row) -> str:
    return " ".join(filter(None, (row["backend"], row["name"], row["problem"], row["tile"])))


def _name(row: Row) -> str:
    """cuda cp_async_pipeline 64x128-s1-w4 (reference tile)"""
    if _is_peer(row):
        return str(row["backend"])
    which = "reference" if row["reference_tile"] else "another"
    return f"{row['backend']} {row['name']} {row['tile'] or '?'} ({which} tile)"
