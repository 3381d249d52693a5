"""harness/measure/cupti.py: each way of keeping work out of the timed interval is found in a trace and named."""

from collections.abc import Callable
from typing import Any

import pytest

from harness.measure import cupti, timing

Event = dict[str, Any]
STREAM = 7
ROUNDS, FRESH = 4, {0, 2}


class Trace:
    """A trace of the kind that torch.profiler exports: the host's side, and each piece of work behind it."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.host, self.gpu, self.correlation = 0.0, 0.0, 0

    def annotate(self, name: str, begin: float) -> None:
        self._event("user_annotation", name, begin, self.host - begin)

    def launch(self, name: str, microseconds: float, stream: int = STREAM, kind: str = "kernel") -> Event:
        """Work begins when the stream is free; on another stream at once."""
        self.correlation += 1
        self._event("cuda_runtime", "cudaLaunchKernel", self.host, 2, correlation=self.correlation)
        self.host += 3
        begin = max(self.host, self.gpu if stream == STREAM else 0)
        if stream == STREAM:
            self.gpu = begin + microseconds
        return self._event(kind, name, begin, microseconds, correlation=self.correlation, stream=stream)

    def wait(self, name: str) -> None:
        self._event("cuda_runtime", name, self.host, 5, correlation=0)
        self.host = max(self.host + 5, self.gpu)

    def _event(self, category: str, name: str, begin: float, microseconds: float, **arguments: Any) -> Event:
        event = {"ph": "X", "cat": category, "name": name, "ts": begin, "dur": microseconds, "args": arguments}
        self.events.append(event)
        return event


def traced(call: Callable[[Trace, int], None], between: Callable[[Trace], None] = lambda trace: None) -> list[Event]:
    """ROUNDS calls with the harness's marks around them; `between` runs between a mark and its call."""
    trace = Trace()
    for number in range(ROUNDS):
        mark(trace)
        between(trace)
        begin, trace.host = trace.host, trace.host + 1
        call(trace, number)
        trace.annotate(f"{cupti.CALL} {number} kernel cuda", begin)
        trace.host += 1
    mark(trace)
    return trace.events


def mark(trace: Trace) -> None:
    begin, trace.host = trace.host, trace.host + 1
    trace.launch("flush", 50)
    trace.annotate(cupti.MARK, begin)
    trace.host += 1


def found(events: list[Event]) -> dict[str, cupti.Finding]:
    (observation,) = cupti.judge(events, FRESH).values()
    return {finding.fault: finding for finding in observation.findings}


def works(*launches: tuple[Any, ...], waits: str = "") -> Callable[[Trace, int], None]:
    """A call that launches these, then calls a function of CUDA's that may wait."""

    def call(trace: Trace, number: int) -> None:
        for one in launches:
            trace.launch(*one)
        if waits:
            trace.wait(waits)

    return call


WORK = ("attention", 100)
honest = works(WORK)


def keeps(*launches: tuple[Any, ...]) -> Callable[[Trace, int], None]:
    """The call works where the inputs changed, and else does nothing, or copies what it kept."""
    return lambda trace, number: (honest if number in FRESH else works(*launches))(trace, number)


WAITING = ("cudaDeviceSynchronize", "cudaStreamSynchronize", "cuCtxSynchronize", "cudaMemcpy")
NOT_WAITING = ("cudaEventRecord", "cudaMemcpyAsync", "cuLaunchKernel", "cudaStreamWaitEvent")
ASIDE = {"other_stream": ("half on stream 13", ROUNDS)}
FAULTS: dict[str, tuple[Callable[[Trace, int], None], dict[str, tuple[str, int]]]] = {
    "none": (honest, {}),
    "none of two kernels": (works(("scores", 60), ("output", 40, STREAM, "gpu_memcpy")), {}),
    "joined before the call returns, as an honest one may do": (works(WORK, ("half", 20, 13)), ASIDE),
    "left after the call": (works(("attention", 10), ("half", 500, 13)), ASIDE | {"left_after": ("half", ROUNDS)}),
    "results kept": (keeps(), {"kept_results": ("without attention", 2)}),
    "results kept and copied": (keeps(("copy", 5)), {"kept_results": ("without attention", 2)}),
    "no work": (works(), {"no_work": ("nothing", ROUNDS)}),
    **{name: (works(WORK, waits=name), {"synchronizes": (name, ROUNDS)}) for name in WAITING},
    **{name: (works(WORK, waits=name), {}) for name in NOT_WAITING},
}
"""What keeps work out of the timed interval -> the call, and fault -> example and number of calls."""


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_is_found_and_named(name: str) -> None:
    call, faults = FAULTS[name]
    (observation,) = cupti.judge(traced(call), FRESH).values()
    assert {one.fault: (one.example, one.calls) for one in observation.findings} == faults
    if not faults:
        assert observation.samples_ms == pytest.approx([0.1] * ROUNDS), "from the first kernel to the last"


def test_a_finding_is_a_sentence() -> None:
    (finding,) = found(traced(works(WORK, ("half", 20, 13)))).values()
    assert finding.text == "work on another stream than the timed one: half on stream 13 (in 4 calls)"


def test_work_begun_before_the_call_is_found() -> None:
    (finding,) = found(traced(honest, between=lambda trace: works(("half", 60))(trace, 0))).values()
    assert (finding.fault, finding.example, finding.calls) == ("begun_before", "half", ROUNDS)


def test_work_whose_launch_was_not_seen_is_found_where_it_overlaps() -> None:
    events = traced(honest)
    own = next(event for event in events if event["name"] == "attention")
    events.append({**own, "name": "from before", "args": {"stream": 21, "correlation": 999}})
    assert set(found(events)) == {"begun_before"}


def test_several_labels_are_told_apart() -> None:
    events = traced(honest)
    for event in events:
        event["name"] = event["name"].replace(f"{cupti.CALL} 1 kernel cuda", f"{cupti.CALL} 1 other triton")
    assert {label: len(item.samples_ms) for label, item in cupti.judge(events, FRESH).items()} == {
        "kernel cuda": ROUNDS - 1,
        "other triton": 1,
    }


def test_a_trace_without_work_is_refused() -> None:
    with pytest.raises(ValueError, match="got 0 timed calls and 0 marks"):
        cupti.judge([])


def test_agreement_is_a_row_and_so_is_its_lack() -> None:
    observation = cupti.Observation([1.0, 1.01, 0.99])
    passed = cupti.fields(observation, [1.0, 1.0, 1.015], 0.0)
    assert (passed["status"], passed["details"]["difference"]) == ("passed", 0.0)
    other = cupti.fields(observation, [1.1, 1.1, 1.1], 0.0)
    assert (other["status"], other["check"]) == ("implausible", "cupti")
    said = "1.0000 ms by CUPTI, 1.1000 ms by events, at most 0.0000 of them beside the kernel: -9.09%, expected"
    assert said in other["reason"]
    barely = cupti.fields(observation, [1 / 1.0204], 0.0)
    assert "+2.04%, expected at most 2%" in barely["reason"], "what is too much reads as too much"
    gap = cupti.fields(observation, [1.1, 1.1, 1.1], 0.1)
    assert (gap["status"], gap["details"]["gap_ms"]) == ("passed", 0.1)
    assert gap["details"]["difference"] == pytest.approx(0.0)
    within = [cupti.fields(observation, [events], 0.1)["details"]["difference"] for events in (1.0, 1.05, 1.15, 0.98)]
    assert within == pytest.approx([0.0, 0.0, 1.0 / 1.05 - 1, 1.0 / 0.98 - 1])
    observation.findings.append(cupti.Finding("left_after", "the rest", 3))
    faulty = cupti.fields(observation, [1.0], 0.0)
    assert (faulty["status"], faulty["check"]) == ("implausible", "left_after")
    assert faulty["details"]["findings"] == ["work that ended after the timed interval: the rest (in 3 calls)"]


# On a GPU: kernels that do each of these


PLANTED = ("honest", "other_stream", "left_after", "begun_before", "kept_results", "synchronizes")


@pytest.mark.gpu
@pytest.mark.parametrize("name", PLANTED)
def test_planted_on_a_gpu(name: str) -> None:
    import torch

    a, b = (torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16) for _ in "ab")
    out, side, kept = torch.empty_like(a), torch.cuda.Stream(), dict[int, torch.Tensor]()

    def on_the_side() -> None:
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.mm(a, b, out=out)

    def call() -> None:
        if name == "left_after":
            on_the_side()
        elif name == "other_stream":
            on_the_side()
            torch.cuda.current_stream().wait_stream(side)
        elif name == "kept_results":
            if a._version not in kept:
                kept[a._version] = torch.mm(a, b)
            out.copy_(kept[a._version])
        else:
            torch.mm(a, b, out=out)
        if name == "synchronizes":
            torch.cuda.synchronize()

    def change() -> None:
        a.add_(1)

    for _ in range(3):
        call()
    if name != "begun_before":
        trace, fresh = cupti.record([{"planted": call}], change, timing.CudaStopwatch(), None, 8)
    else:
        trace, fresh = with_work_before(call, change, lambda: torch.mm(a, b))
    (observation,) = cupti.judge(trace, fresh).values()
    faults = [finding.fault for finding in observation.findings]
    assert name in faults if name != "honest" else faults == []


def with_work_before(
    call: Callable[[], object], change: Callable[[], object], early: Callable[[], object]
) -> tuple[list[Event], set[int]]:
    """Half of the work is launched as soon as the harness looks which call comes next, before it begins to time it."""

    real = cupti.CALL

    class Name(str):
        def __format__(self, specification: str) -> str:
            early()
            return str(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cupti, "CALL", Name(real))
        return cupti.record([{"planted": call}], change, timing.CudaStopwatch(), None, 8)
