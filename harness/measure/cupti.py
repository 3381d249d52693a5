"""A second clock, and a witness: what CUPTI saw a call do on the GPU, through torch.profiler.

CUDA events see the time between two points of one stream. A call can keep work out of that interval: on another stream,
launched before or left running after, or done once and kept. CUPTI names each piece of work on the GPU, its stream and
the host call that launched it. Knows no operator.

`judge` reads a trace as torch.profiler exports it (the Chrome trace format; times in microseconds); `record` makes one.
"""

from __future__ import annotations

import json
import math
import re
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.machine import clocks
from harness.rows.reading import AGREEMENT

if TYPE_CHECKING:
    from harness.measure import timing

CALL, MARK = "twinkernels call", "twinkernels mark"
"""Names of what the harness does in a trace: a timed call, and its own work between two."""
ON_GPU = ("kernel", "gpu_memcpy", "gpu_memset")
ON_HOST = ("cuda_runtime", "cuda_driver")
WAITS = re.compile(
    r"cuda(Device|Stream|Event)Synchronize|cu(Ctx|Stream|Event)Synchronize(_v2|_ptsz)?"
    r"|cudaMemcpy(2D|3D|ToSymbol|FromSymbol)?|cuMemcpy(HtoD|DtoH|DtoD|2D|3D)?(_v2)?"
)
"""Host calls that wait for the GPU."""

FAULTS = {
    "other_stream": "work on another stream than the timed one",
    "begun_before": "work launched outside the timed call",
    "left_after": "work that ended after the timed interval",
    "kept_results": "a call with the same inputs did less than the first after they changed",
    "synchronizes": "the call waits for the GPU",
    "no_work": "no work on the GPU",
}


@dataclass(frozen=True)
class Work:
    """One piece of work on the GPU, in microseconds."""

    name: str
    stream: int
    begin: float
    end: float


Window = tuple[tuple[float, float], str]
"""Begin and end of an annotation, in microseconds, and its name."""
Stray = tuple[Work, float | None]
"""Work, and when the host launched it, if that was seen."""


@dataclass(frozen=True)
class Finding:
    """`fault` is a key of FAULTS; `example` names the work or the host call that shows it, `calls` in how many."""

    fault: str
    example: str
    calls: int

    @property
    def text(self) -> str:
        return f"{FAULTS[self.fault]}: {self.example} (in {self.calls} calls)"


@dataclass
class Observation:
    """What CUPTI saw of one label: milliseconds from the begin of a call's first work to the end of its last, and the
    findings."""

    samples_ms: list[float] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


def judge(events: Iterable[Mapping[str, Any]], fresh: Iterable[int] = (0,)) -> dict[str, Observation]:
    """Label -> observation, from a trace's events.

    A timed call is an annotation "twinkernels call NUMBER LABEL"; what the harness does itself is inside annotations
    "twinkernels mark". `fresh` are the numbers of calls before which the inputs changed. Raises ValueError when the
    trace holds no timed call, or no work on the GPU that the harness itself put there.
    """
    events = [event for event in events if event.get("ph") == "X"]
    windows, work, stray = _attributed(events)
    of_host = (event for event in events if event.get("cat") in ON_HOST)
    waits = [(_span(event)[0], event["name"]) for event in of_host if WAITS.fullmatch(event["name"])]
    calls = [number for number, (_, name) in enumerate(windows) if name.startswith(CALL)]
    marks = {number: work[number] for number, (_, name) in enumerate(windows) if name == MARK and work[number]}
    if not calls or not marks:
        raise ValueError(f"trace: got {len(calls)} timed calls and {len(marks)} marks on the GPU, expected both")
    ((timed_stream, _),) = Counter(piece.stream for pieces in marks.values() for piece in pieces).most_common(1)
    found: dict[str, Observation] = {}
    seen: dict[str, dict[str, list[str]]] = {}
    usual: dict[str, list[tuple[int, Counter[str]]]] = {}
    changed, idle_since = set(fresh), -math.inf
    for window in calls:
        (begin, end), name = windows[window]
        number, _, label = name.removeprefix(f"{CALL} ").partition(" ")
        observation, faults = found.setdefault(label, Observation()), seen.setdefault(label, {})
        mine = work[window]
        usual.setdefault(label, []).append((int(number), Counter(piece.name for piece in mine)))
        first, last = (min(p.begin for p in mine), max(p.end for p in mine)) if mine else (math.inf, -math.inf)
        if mine:
            observation.samples_ms.append((last - first) / 1e3)
        after = min((piece.begin for number in marks if number > window for piece in marks[number]), default=math.inf)
        examples = {
            "synchronizes": [name for moment, name in waits if begin <= moment <= end],
            "other_stream": [
                f"{piece.name} on stream {piece.stream}" for piece in mine if piece.stream != timed_stream
            ],
            "left_after": [piece.name for piece in mine if piece.end > after],
            "begun_before": [
                piece.name
                for piece, moment in stray
                if (piece.begin < last and piece.end > first if moment is None else idle_since < moment < begin)
            ],
        }
        for fault, pieces in examples.items():
            if pieces:
                faults.setdefault(fault, []).append(pieces[0])
        idle_since = end
    for label, observation in found.items():
        if not observation.samples_ms:
            seen[label]["no_work"] = ["nothing"] * len(usual[label])
        if less := _left_out(usual[label], changed):
            seen[label]["kept_results"] = less
        observation.findings = [
            Finding(fault, shown[0], len(shown)) for fault in FAULTS if (shown := seen[label].get(fault))
        ]
    return found


def _attributed(events: Sequence[Mapping[str, Any]]) -> tuple[list[Window], list[list[Work]], list[Stray]]:
    """The annotations of a trace in order, the work that the host launched in each, and the work of none."""
    annotations = [event for event in events if event.get("cat") == "user_annotation"]
    windows = sorted((_span(event), event["name"]) for event in annotations if event["name"].startswith((CALL, MARK)))
    of_host = [event for event in events if event.get("cat") in ON_HOST and "correlation" in event.get("args", {})]
    launches = {event["args"]["correlation"]: _span(event)[0] for event in of_host}
    work: list[list[Work]] = [[] for _ in windows]
    stray: list[Stray] = []
    for event in events:
        if event.get("cat") in ON_GPU:
            piece = Work(event["name"], int(event["args"].get("stream", -1)), *_span(event))
            moment = launches.get(event["args"].get("correlation"), math.nan)
            mine = [found for found, ((begin, end), _) in zip(work, windows, strict=True) if begin <= moment <= end]
            if mine:
                mine[0].append(piece)
            else:
                stray.append((piece, None if math.isnan(moment) else moment))
    return windows, work, stray


def _left_out(calls: Iterable[tuple[int, Counter[str]]], fresh: Container[int]) -> list[str]:
    """What calls did not do that the first one with fresh inputs did. `calls`: number, and how often it did what."""
    full = next((done for number, done in calls if number in fresh), None)
    less = [full - done for number, done in calls if full and number not in fresh and full - done]
    return [f"without {next(iter(missing))}" for missing in less]


def record(
    loads: Sequence[Mapping[str, Callable[[], object]]],
    change: Callable[[], object],
    stopwatch: timing.CudaStopwatch,
    source: clocks.Device | None,
    rounds: int,
) -> tuple[list[dict[str, Any]], set[int]]:
    """Makes each call of `loads` `rounds` times under the profiler, each with a cold cache: the trace's events, and the
    numbers of the calls for which `change` had just changed the inputs in place: the first of each label and its last
    but one. Before each load `stopwatch` keeps the GPU busy while the load is queued: a call of several kernels would
    else wait for the host between them, which CUPTI counts. After it the GPU rests."""
    import torch
    from torch.profiler import ProfilerActivity, profile, record_function

    from harness.measure.timing import cool

    fresh: set[int] = set()
    number = 0
    torch.cuda.synchronize()
    activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    with clocks.Sampler(source) as sampler, profile(activities=activities) as profiler:
        for turn in range(rounds):
            changed = turn in (0, rounds - 2)
            for position, load in enumerate(loads):
                begin = time.monotonic()
                with record_function(MARK):
                    if changed and position == 0:
                        change()
                    stopwatch.hold()
                for label, call in load.items():
                    with record_function(MARK):
                        stopwatch.flush()
                    if changed:
                        fresh.add(number)
                    with record_function(f"{CALL} {number} {label}"):
                        call()
                    number += 1
                with record_function(MARK):
                    stopwatch.flush()
                torch.cuda.synchronize()
                cool(sampler, stopwatch, busy=time.monotonic() - begin)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        return json.loads(path.read_text())["traceEvents"], fresh


def fields(observation: Observation, events_ms: Sequence[float], gap_ms: float) -> dict[str, Any]:
    """Fields of a timing row by CUPTI: status, reason, check, samples_ms by CUPTI, and in the details both medians.
    `gap_ms`: what events read around an empty kernel more than CUPTI."""
    details: dict[str, Any] = {"findings": [finding.text for finding in observation.findings]}
    row: dict[str, Any] = {"status": "passed", "details": details}
    if observation.samples_ms:
        medians = statistics.median(observation.samples_ms), statistics.median(events_ms)
        nearest = min(max(medians[0], medians[1] - gap_ms), medians[1])
        difference = medians[0] / nearest - 1
        details |= {"events_ms": medians[1], "cupti_ms": medians[0], "gap_ms": gap_ms, "difference": difference}
        row["samples_ms"] = observation.samples_ms
        if abs(difference) > AGREEMENT:
            row |= {
                "status": "implausible",
                "check": "cupti",
                "reason": f"{medians[0]:.4f} ms by CUPTI, {medians[1]:.4f} ms by events, at most "
                f"{gap_ms:.4f} of them beside the kernel: {difference:+.2%}, "
                f"expected at most {AGREEMENT:.0%}",
            }
    if observation.findings:
        first = observation.findings[0]
        row |= {"status": "implausible", "check": first.fault, "reason": first.text}
    return row


def _span(event: Mapping[str, Any]) -> tuple[float, float]:
    begin = float(event["ts"])
    return begin, begin + float(event.get("dur", 0))
