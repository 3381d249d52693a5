"""The promised ratios, from rows. Standard library only.

A ratio compares two samples of one interleaved group and nothing else, but for the articles' own code: that was
measured separately, is quoted, and the entry says so. Rows of an earlier version of a kernel
(`source_sha256` is not the checkout's) do not count.
"""

from __future__ import annotations

import json
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from harness.catalog import experiments, techniques
from harness.catalog.problem import Problem
from harness.operators.attention import articles
from harness.rows import intervals, ledger, noise, reading, results
from harness.rows.reading import (
    Hashes,
    Row,
    checkout_hashes,
    counts,
    gpu_name,
    is_as_shipped,
    is_final,
    is_reference_tile,
    is_unsettled,
    pick,
    ratio,
    same_group,
    slug,
    tflops,
    tile_slug,
)

SCHEMA = 2
"""The format's version in what `scorecard` returns."""
MODE = "burst"
"""The mode of timing where a promise names no other."""
ARTICLE = "article"
"""In place of a backend: the article's own code as quoted in the experiment, measured separately on one kind of GPU."""


AMONG_THE_BEST = 0.95
"""Of the speed of the fastest kernel with the same instructions, each in its fastest process: other runs and boards
move that by less."""
GAP_EXPLAINED = "gap_explained"
"""The entry that is no ratio: the share of a gap that has a cause (rows.ledger)."""
ALL_BOARDS = "all boards"
"""In a cell's `missed`, beside the names of boards."""
FASTEST = "fastest"
"""In place of a backend: the fastest of RIVALS, which must all be in the group."""
ENDS = (ledger.FLAGSHIP, ledger.TRITON)
"""The kernels between which GAP_EXPLAINED is."""
RIVALS = ("sdpa_cudnn", "fa3", "fa4")
FAILURES = ("wrong", "cuda_error", "crashed")
"""Statuses of a gate that the kernel failed: the machine and its limits of time and memory are not to blame."""


@dataclass(frozen=True)
class Promise:
    """A ratio that is followed over time: TFLOPS of `ours` over TFLOPS of `theirs`, both the best rung they have.

    `rung`: the one technique that counts for CUDA, in place of the best. `problem`: the one problem of the experiment
    that is asked about. `mode`: of timing. `ladder`: GPUs that run this ladder
    have an entry, incomplete while the experiment has no row of theirs.
    """

    name: str
    ours: str
    theirs: str
    experiment: str = "ladder"
    rung: str | None = None
    problem: Problem | None = None
    mode: str = MODE
    ladder: str | None = None

    def counts(self, row: Row) -> bool:
        """Whether this row of its experiment can stand on one of its sides."""
        return self.rung is None or row["backend"] != "cuda" or row.get("technique") == self.rung


def _flagship(name: str, ours: str, theirs: str, experiment: str = "hopper_grid", **rest: Any) -> Promise:
    return Promise(name, ours, theirs, experiment, rung="flagship", ladder="hopper", **rest)


PROMISES = (
    Promise("cuda_over_fa2", "cuda", "sdpa_flash"),
    Promise("cuda_over_cudnn", "cuda", "sdpa_cudnn"),
    Promise("triton_over_cuda", "triton", "cuda"),
    Promise("triton_native_over_flex", "triton_native", "flex"),
    Promise("mma_sync_cuda_over_fa2", "cuda", "sdpa_flash", experiment="over_fa2"),
    Promise("mma_sync_cuda_over_fa2_seed001", "cuda", "sdpa_flash", experiment="seed_raw_ptx"),
    _flagship("flagship_over_fastest", "cuda", FASTEST),
    _flagship("flagship_over_cudnn", "cuda", "sdpa_cudnn"),
    _flagship("flagship_over_fa3", "cuda", "fa3"),
    _flagship("flagship_over_fa4", "cuda", "fa4"),
    _flagship("flagship_over_fastest_sustained", "cuda", FASTEST, "hopper_sustained", mode="sustained"),
    _flagship("triton_over_flagship", "triton", "cuda"),
    _flagship("triton_over_cudnn", "triton", "sdpa_cudnn", problem=Problem.square(2, 16, 8192, 128)),
    _flagship("gluon_over_cudnn", "gluon", "sdpa_cudnn", problem=Problem.square(2, 16, 8192, 128)),
    _flagship("gluon_over_fa4", "gluon", "fa4", problem=Problem.square(2, 16, 8192, 128)),
    *(Promise(f"{name}_over_article", "cuda", ARTICLE, experiment=name) for name in experiments.about_articles()),
)


def scorecard(rows: Iterable[Row], *, hashes: Hashes | None = None) -> dict[str, Any]:
    """One entry per promise and GPU that ran its experiment, and GAP_EXPLAINED: {name, experiment, ours, gpu, quoted,
    status, reason, value, interval, worst_cell, verdicts, earlier_gate, kernels, unrefereed, disagreeing, cells}.

    `value` is the geometric mean over the experiment's problems of ours / theirs, None while the entry is incomplete;
    of GAP_EXPLAINED it is the share at ledger.HEADLINE, and a cell's `boards` are board -> share there. From SCHEMA 2
    on that entry has a cell for every length, a `goal`, and in each cell `missed`: where the share is below the goal,
    "all boards" or the name of one.
    `quoted` says what theirs is where it was not measured with ours, else it is None. A cell is {problem, value,
    interval, ours, theirs (TFLOPS), ours_is, theirs_is, case, run} or {problem, reason}. `interval` is what
    intervals.Interval.to_dict makes, over every process that timed both, or ours where theirs is quoted. Where it has
    ends, `value` is the mean over the same processes; `ours` and `theirs` are always of one `run`.
    A cell has a `failed_gate` where one of its kernels failed another gate than the one before its timing: which, in
    words (Gates.failed_by).
    `verdicts` counts the gates of the kernels compared, `earlier_gate` those of them that had other inputs or limits.
    `kernels` are these kernels and libraries by problem and tile, `unrefereed` those that CUPTI never timed,
    `disagreeing` those of which it last said otherwise than the events.
    """
    hashes = checkout_hashes() if hashes is None else hashes
    all_rows = list(rows)
    gpus = {row["id"]: gpu_name(row) for row in all_rows if row["kind"] == "environment"}
    majors = {gpu_name(row): _major(row) for row in all_rows if row["kind"] == "environment"}
    timing: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in all_rows:
        if row["kind"] == "timing" and is_as_shipped(row):
            gpu = gpus.get(row.get("environment"), "unknown GPU")
            timing[gpu, row["experiment"], row.get("mode") or MODE].append(row)
    known = intervals.Intervals(noise.Timings(all_rows))
    gates = Gates(all_rows, gpus)
    entries = []
    for gpu in sorted({gpu for gpu, *_ in timing}):
        for promise in PROMISES:
            place = (gpu, promise.experiment, promise.mode)
            runs = promise.ladder and majors.get(gpu) in techniques.LADDERS[promise.ladder].capabilities
            if (runs or place in timing) and (promise.theirs != ARTICLE or gpu == articles.OWN_CODE_GPU):
                entries.append(_entry(promise, gpu, timing.get(place, []), hashes, known, gates))
        if majors.get(gpu) in techniques.LADDERS["hopper"].capabilities:
            own = [row for row in all_rows if gpus.get(row.get("environment") or row.get("id")) == gpu]
            entries.append(_gap_explained(gpu, own, hashes, gates))
    return {"schema": SCHEMA, "mode": MODE, "entries": entries}


class Gates:
    """The newest verdict on each kernel, problem and tile in an experiment on a GPU, the gates that kernels failed, and
    what CUPTI saw in any."""

    def __init__(self, rows: Iterable[Row], gpus: Mapping[Any, str]) -> None:
        self.gpus = gpus
        rows = list(rows)
        referees = [row for row in rows if row["kind"] == "referee" and is_as_shipped(row)]
        referees.sort(key=lambda row: str(row["time"]))
        self.refereed = {self.program(row): row["status"] for row in referees}
        gates = (row for row in rows if row["kind"] == "gate" and row["status"] != "unsupported")
        ours = [row for row in gates if row.get("technique") and is_as_shipped(row)]
        ours.sort(key=lambda row: str(row["time"]))
        self.newest = {self.place(row): row for row in ours}
        self.passed = {self.program(row) for row in ours if row["status"] == "passed"}
        self.failed: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
        for row in ours:
            if row["status"] in FAILURES:
                self.failed[self.twin(row)].append(row)

    def place(self, row: Row) -> tuple[Any, ...]:
        """What a gate and a timing of one kernel have in common."""
        return row["experiment"], *self.program(row)

    def program(self, row: Row) -> tuple[Any, ...]:
        """What timings of one kernel in several experiments have in common."""
        return self.gpus.get(row.get("environment")), row.get("source_sha256"), reading.cell(row)

    def twin(self, row: Row) -> tuple[Any, ...]:
        """What programs of one kernel have in common, whatever the problem and the tile."""
        return self.gpus.get(row.get("environment")), row.get("source_sha256"), row["backend"], row.get("technique")

    def failed_by(self, timing: Row) -> str | None:
        """Which gates the kernel of a timing failed elsewhere, in words: those at the timing's tile, and those of a
        program that passed another gate, so that its result does not always repeat. A tile that never passes says
        nothing about another tile."""
        tile = tile_slug(timing)
        found = [
            gate
            for gate in self.failed.get(self.twin(timing), ())
            if tile_slug(gate) == tile or self.program(gate) in self.passed
        ]
        if not found:
            return None
        which = "another gate" if len(found) == 1 else f"{len(found)} other gates, the last"
        last = found[-1]
        return f"of a kernel that failed {which}: {reading.cell(last)} in {last['experiment']}: {last['reason']}"

    def marked(self, cell: dict[str, Any], timings: Iterable[Row]) -> dict[str, Any]:
        """The cell of these timings, with a `failed_gate` where there is one."""
        told = next(filter(None, map(self.failed_by, timings)), None)
        return cell | {"failed_gate": told} if told else cell

    def of(self, timings: Iterable[Row]) -> dict[str, Any]:
        """How many of these kernels have a verdict, and how many of the verdicts are of an earlier gate; the kernels,
        those that CUPTI did not time, and those of which it last said otherwise than the events."""
        timings = list(timings)
        found = {place: self.newest[place] for place in map(self.place, timings) if place in self.newest}
        seen = {reading.cell(row): self.refereed.get(self.program(row)) for row in timings}
        return {
            "verdicts": len(found),
            "earlier_gate": sum(map(reading.of_earlier_gate, found.values())),
            "kernels": sorted(seen),
            "unrefereed": sorted(kernel for kernel, status in seen.items() if status is None),
            "disagreeing": sorted(kernel for kernel, status in seen.items() if status not in (None, "passed")),
        }


def told_of_earlier_gate(entries: Iterable[Mapping[str, Any]]) -> str:
    """How many of the ratios are of kernels that an earlier gate checked; empty where none is."""
    counts = [entry["earlier_gate"] for entry in entries]
    return reading.told_of_earlier_gate(sum(count > 0 for count in counts), len(counts), "ratio")


def caveats(entry: Mapping[str, Any]) -> list[str]:
    """What a reader of an entry's value should know of its kernels, in words without an end: on how many problems one
    failed another gate, and of how many CUPTI disagrees with the events."""
    told = []
    count, total = sum("failed_gate" in cell for cell in entry["cells"]), len(entry["cells"])
    if count:
        where = f"on {count} of {total} problems" if total > 1 else "here"
        told.append(f"{where} one of the kernels failed another gate, though it passed the gate before its timing")
    if entry["disagreeing"]:
        count, total = len(entry["disagreeing"]), len(entry["kernels"])
        told.append(f"of {count} of {total} kernels and libraries CUPTI measured another time than the events")
    return told


def _gap_explained(gpu: str, rows: Iterable[Row], hashes: Hashes, gates: Gates) -> dict[str, Any]:
    """How much of the gap between core Triton and the flagship has a cause, on each problem of the experiment that was
    measured; the value is HEADLINE's, and complete where that is. A cell of another problem may say why it has none."""
    found = {one.problem: one for one in ledger.ledgers(rows, hashes)}
    problems = experiments.load(ledger.EXPERIMENT).problems
    asked = [problem for problem in problems if problem in found or problem == ledger.HEADLINE]
    rows_of = {p: [found[p].rows[name] for name in ENDS if name in found[p].rows] for p in asked if p in found}
    cells = [gates.marked(_explained_cell(p, found.get(p)), rows_of.get(p, ())) for p in asked]
    (headline,) = [cell for cell in cells if cell["problem"] == ledger.HEADLINE.slug]
    reason = f"{headline['problem']}: {headline['reason']}" if "reason" in headline else None
    if not found:
        reason = f"{ledger.EXPERIMENT} was not run on this GPU: `twinkernels run {ledger.EXPERIMENT}`"
    valued = [cell for cell in cells if "value" in cell]
    return {
        "name": GAP_EXPLAINED,
        "experiment": ledger.EXPERIMENT,
        "ours": "cuda",
        "gpu": gpu,
        "quoted": None,
        "status": "incomplete" if reason else "complete",
        "reason": reason,
        "value": headline.get("value"),
        "interval": headline.get("interval"),
        "worst_cell": None if reason else min(valued, key=lambda cell: float(cell["value"]))["problem"],
        "goal": ledger.GOAL,
        **gates.of(row for rows in rows_of.values() for row in rows),
        "cells": cells,
    }


def _explained_cell(problem: Problem, found: ledger.Ledger | None) -> dict[str, Any]:
    """A problem's share, of all boards and board by board; or why it has none."""
    explained = found.explained if found else None
    if found is None or explained is None:
        refused = found.refused if found else {}
        why = "; ".join(f"{name}: {reason}" for name, reason in refused.items())
        return {"problem": problem.slug, "reason": why or "the two ends have no common group"}
    ours, theirs = found.rows[ledger.FLAGSHIP], found.rows[ledger.TRITON]
    shares = {ALL_BOARDS: explained[0], **found.shares}
    return {
        "problem": problem.slug,
        "value": explained[0],
        "interval": explained[1].to_dict(),
        "boards": found.shares,
        "missed": [where for where, share in shares.items() if share < ledger.GOAL],
        "ours": found.tflops(ledger.FLAGSHIP),
        "theirs": found.tflops(ledger.TRITON),
        "ours_is": _name(ours),
        "theirs_is": _name(theirs),
        "case": reading.cell(ours),
        "run": ours.get("environment"),
    }


def _major(environment: Row) -> int | None:
    """The major compute capability of an environment row's GPU."""
    capability = ((environment.get("details") or {}).get("gpu") or {}).get("capability")
    return capability[0] if capability else None


def _entry(
    promise: Promise, gpu: str, rows: list[Row], hashes: Hashes, known: intervals.Intervals, gates: Gates
) -> dict[str, Any]:
    quoted = interval = None
    compared: list[Row] = []
    if promise.theirs == ARTICLE:
        article = experiments.article(promise.experiment)
        quoted = f"quoted: {article.own_code_is}, measured separately on an {articles.OWN_CODE_GPU}"
        shapes = [shape for shape in article.shapes if shape.own_code]
        found = [_quoted_cell(promise, shape, quoted, rows, hashes, known) for shape in shapes]
        cells = [gates.marked(cell, one[:1] if one else ()) for cell, one in found]
        best = [one for _, one in found if one]
        compared += [ours for ours, _ in best]
        if len(best) == len(cells):
            interval = known.mean_of([ratio for _, ratio in best]).to_dict()
    else:
        asked = [promise.problem] if promise.problem else experiments.load(promise.experiment).problems
        cells, pairs = [], []
        here: dict[str, list[Row]] = defaultdict(list)
        for row in filter(promise.counts, rows):
            here[slug(row)].append(row)
        find = _fastest_cell if promise.theirs == FASTEST else _cell
        for problem in sorted(problem.slug for problem in asked):
            cell, pair = find(promise, problem, here[problem], hashes, known)
            cells.append(gates.marked(cell, pair or ()))
            if pair:
                pairs.append(pair)
                compared += pair
        if len(pairs) == len(cells):
            interval = known.mean(pairs).to_dict()
    holes = [cell for cell in cells if "reason" in cell]
    complete = not holes
    reason = "; ".join(f"{cell['problem']}: {cell['reason']}" for cell in holes) or None
    if not rows:
        reason = f"{promise.experiment} was not run on this GPU: `twinkernels run {promise.experiment}`"
    return {
        "name": promise.name,
        "experiment": promise.experiment,
        "ours": promise.ours,
        "gpu": gpu,
        "quoted": quoted,
        "status": "complete" if complete else "incomplete",
        "reason": reason,
        "value": statistics.geometric_mean(cell["value"] for cell in cells) if complete else None,
        "interval": interval,
        "worst_cell": min(cells, key=lambda cell: cell["value"])["problem"] if complete else None,
        **gates.of(compared),
        "cells": cells,
    }


def _cell(
    promise: Promise, problem: str, here: list[Row], hashes: Hashes, known: intervals.Intervals
) -> tuple[dict[str, Any], tuple[Row, Row] | None]:
    """The cell, and the two rows that it is of. `here`: the problem's rows that count for the promise. Where enough
    processes timed both, the value is the mean over them."""
    newest = results.newest(here)
    ours, why_ours = _best(promise.ours, newest, hashes)
    theirs, why_theirs = _best(promise.theirs, newest, hashes)
    if final := _final(promise, here, newest, hashes):
        ours, theirs = final
    if ours is None or theirs is None:
        return {"problem": problem, "reason": why_ours or why_theirs}, None
    if not theirs.get("technique"):  # a peer may be in several groups, and its newest row in another one
        of_group = [row for row in here if row["backend"] == promise.theirs and same_group(ours, row)]
        theirs = next((row for row in of_group if counts(row, hashes)), theirs)
    if not _is_comparable(ours, theirs):
        why = f"different instruction classes: {ours.get('mma')}, {theirs.get('mma')}"
        return {"problem": problem, "reason": why}, None
    value = ratio(ours, theirs)
    if value is None:
        why = f"{_name(ours)} and {_name(theirs)} were not timed in one group"
        return {"problem": problem, "reason": why}, None
    met = known.ratio(ours, theirs)
    cell = {
        "problem": problem,
        "value": value if met.draws is None else math.exp(met.value),
        "ours": tflops(ours),
        "theirs": tflops(theirs),
        "ours_is": _name(ours),
        "theirs_is": _name(theirs),
        "case": reading.cell(ours),
        "run": ours.get("environment"),
        "interval": met.interval.to_dict(),
    }
    return cell, (ours, theirs)


def _fastest_cell(
    promise: Promise, problem: str, here: list[Row], hashes: Hashes, known: intervals.Intervals
) -> tuple[dict[str, Any], tuple[Row, Row] | None]:
    """The cell of the rival that is fastest over all processes: in one of them another may be. Without all rivals
    beside the same samples of ours nobody is."""
    found = [_cell(replace(promise, theirs=rival), problem, here, hashes, known) for rival in RIVALS]
    if hole := next((cell for cell, pair in found if pair is None), None):
        return hole, None
    if len({json.dumps(pair[0], sort_keys=True) for _, pair in found if pair}) > 1:
        return {"problem": problem, "reason": f"{', '.join(RIVALS)} were not timed in one group"}, None
    return min(found, key=lambda one: one[0]["value"])


def _quoted_cell(
    promise: Promise,
    shape: articles.Shape,
    quoted: str,
    rows: list[Row],
    hashes: Hashes,
    known: intervals.Intervals,
) -> tuple[dict[str, Any], tuple[Row, intervals.Estimate] | None]:
    """Our best, from the newest final group where there is one, over a number that has no samples; its row, and the
    ratio. The interval is of our side alone."""
    newest = results.newest(row for row in rows if slug(row) == shape.problem.slug)
    finals = _finals(promise.ours, newest, hashes)
    ours, why = (finals[0], None) if finals else _best(promise.ours, newest, hashes)
    if ours is None or shape.own_code is None:
        return {"problem": shape.problem.slug, "reason": why}, None
    ratio = known.tflops(ours).over(shape.own_code)
    cell = {
        "problem": shape.problem.slug,
        "value": math.exp(ratio.value),
        "ours": math.exp(ratio.value) * shape.own_code,
        "theirs": shape.own_code,
        "interval": ratio.interval.to_dict(),
        "ours_is": _name(ours),
        "theirs_is": quoted,
        "case": reading.cell(ours),
        "run": ours.get("environment"),
    }
    return cell, (ours, ratio)


def _final(promise: Promise, here: list[Row], newest: Iterable[Row], hashes: Hashes) -> tuple[Row, Row] | None:
    """Both sides from the newest final group that has them: chosen before these samples were taken. A group of a run
    that timed few techniques is passed over: its winners are not the best. They are judged by their fastest process,
    because under load a board may slow down all kernels of a group."""
    counting = [row for row in newest if counts(row, hashes)]
    fastest: dict[object, float] = defaultdict(float)
    for row in counting:
        for alike in ((row["backend"], row.get("mma")), reading.cell(row)):
            fastest[alike] = max(fastest[alike], tflops(row))

    def is_among_the_best(row: Row) -> bool:
        own = max(fastest[reading.cell(row)], tflops(row))
        return own >= AMONG_THE_BEST * fastest[row["backend"], row.get("mma")]

    for row in filter(is_among_the_best, _finals(promise.ours, counting, hashes)):
        for other in here:
            met = other["backend"] == promise.theirs and same_group(row, other) and counts(other, hashes)
            if met and is_among_the_best(other) and _is_comparable(row, other):
                return row, other
    return None


def _is_comparable(ours: Row, theirs: Row) -> bool:
    """Whether theirs is a library or uses the same instruction class: a rung is compared with no other."""
    return not theirs.get("technique") or ours.get("mma") == theirs.get("mma")


def _finals(backend: str, rows: Iterable[Row], hashes: Hashes) -> list[Row]:
    """A backend's rows in final groups, the newest first."""
    finals = [row for row in rows if row["backend"] == backend and is_final(row) and counts(row, hashes)]
    return sorted(finals, key=lambda row: row["time"], reverse=True)


def _best(backend: str, rows: Iterable[Row], hashes: Hashes) -> tuple[Row | None, str | None]:
    """The fastest rung of a backend on one problem, each at its picked tile; or None and why there is none. Where a
    faster one did not converge, what is left is not the best."""
    of_backend = [row for row in rows if row["backend"] == backend]
    by_technique: dict[str | None, list[Row]] = defaultdict(list)
    for row in of_backend:
        if counts(row, hashes):
            by_technique[row.get("technique")].append(row)
    picked = [row for row in map(pick, by_technique.values()) if row is not None]
    if picked:
        best = max(picked, key=tflops)
        faster = [row for row in of_backend if is_unsettled(row, hashes) and tflops(row) > tflops(best)]
        if faster:
            return None, f"{_name(max(faster, key=tflops))} was faster and did not converge"
        return best, None
    if not of_backend:
        return None, f"{backend}: no row"
    if any(row["status"] == "passed" for row in of_backend):
        return None, f"{backend}: only rows of an earlier version of the kernel"
    newest = max(of_backend, key=lambda row: row["time"])
    return None, f"{backend}: {newest['status']}, {newest.get('reason')}"


def _name(row: Row) -> str:
    """cuda cp_async_pipeline 64x128-s1-w4 (reference tile); another tile is one of the experiment or of the table."""
    if not row.get("technique"):
        return str(row["backend"])
    which = "reference" if is_reference_tile(row) else "another"
    return f"{row['backend']} {row['technique']} {tile_slug(row) or '?'} ({which} tile)"
