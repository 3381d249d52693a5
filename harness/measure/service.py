"""What runs in a worker's process: kernels are loaded, judged and timed at the runner's request.

`python -m harness.measure.service DESCRIPTOR LOADER ON DEADLINES` is such a process; harness.measure.worker holds the
other end.
"""

from __future__ import annotations

import faulthandler
import importlib
import itertools
import json
import math
import os
import signal
import statistics
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, Protocol

from harness.machine.environment import headline
from harness.machine.processes import die_with_parent
from harness.measure.worker import LOG_TAIL, UNHEARD, Deadlines, GateOptions, Stage, places
from harness.rows import files

if TYPE_CHECKING:
    from harness.catalog.cases import Case
    from harness.measure.arenas import Inputs

LAUNCH_TIMEOUT = 702
"""CUDA's error, and a CPU's, of a kernel that goes on for ever."""
STICKY = frozenset((700, LAUNCH_TIMEOUT, 710, 714, 715, 716, 717, 718, 719))
"""CUDA errors of a kernel that ran (illegal address, launch failure, ...): the context is lost with it."""


class Loader(Protocol):
    """What the process needs of harness.build."""

    def load(self, case: Case, on: str) -> Any: ...
    def source_sha256(self, case: Case) -> str | None: ...


class Watch:
    """Has faulthandler tell the log where all threads are, UNHEARD seconds after a deadline: where no thread heard the
    runner's signal, since a driver may hold signals back. It cannot do so at once, as it reads the frames of threads
    that may be running."""

    STEP = 1.0
    """Seconds: each beginning starts a thread, which is too dear for many short launches."""

    def __init__(self, deadlines: Deadlines) -> None:
        self._deadlines = deadlines
        self._begun: tuple[Stage, float] | None = None

    def begin(self, stage: Stage) -> None:
        """The deadline of this stage begins anew."""
        now = time.monotonic()
        if self._begun is None or stage != self._begun[0] or now > self._begun[1] + self.STEP:
            self._begun = stage, now
            faulthandler.dump_traceback_later(getattr(self._deadlines, stage) + self.STEP + UNHEARD)

    def end(self) -> None:
        """The process waits for its next task."""
        self._begun = None
        faulthandler.cancel_dump_traceback_later()


class Service:
    """What the runner may ask for, run in the process."""

    def __init__(self, connection: Connection, loader: Loader, on: str, watch: Watch | None = None) -> None:
        self._connection = connection
        self._watch = watch
        self._loader = loader
        self._on = on
        self._device = "cuda" if on == "gpu" else "cpu"
        self._loaded: dict[Case, Any] = {}
        self.stage: Stage = "start"

    def now(self, stage: Stage, label: str | None) -> None:
        """Tells the runner which case is at which stage: its deadline begins anew."""
        self.stage = stage
        if self._watch:
            self._watch.begin(stage)
        self._connection.send(("now", stage, label))

    def launching(self, _step: str, label: str) -> None:
        """What a stopwatch tells of a call: each has the deadline of a launch of its own."""
        self.now("launch", label.removesuffix(" again"))

    def gate(self, case: Case, label: str, options: GateOptions) -> dict[str, Any]:
        """Loads and judges one case: the fields of its gate row."""
        from harness.measure import gate

        self.now("load", label)
        variant = self._loader.load(case, self._on)
        launches_ms: list[float] = []
        seeds = itertools.cycle(options.scheduler_seeds)

        def launch(tensors: Mapping[str, Any], scalars: Mapping[str, Any]) -> None:
            self.now("launch", label)
            if options.scheduler_seeds:
                variant.schedule(next(seeds))
            start = time.perf_counter()
            variant.launch(tensors, scalars)
            self._synchronize()
            launches_ms.append((time.perf_counter() - start) * 1e3)
            self.now("check", label)

        self.now("check", label)
        verdict = gate.gate(
            launch,
            case.problem,
            distributions=options.distributions,
            seeds=options.seeds,
            device=self._device,
            repeats=options.repeats,
            padded=options.padded,
            peer=case.is_peer,
            may_leave_out=case.kernel is not None,
        )
        details = {"label": variant.label, "launch_ms": min(launches_ms)}
        if options.padded:
            details["padded"] = True
        if case.kernel and verdict.left_out:
            details["label"] = f"no {', '.join(verdict.left_out).upper()}"
        return {
            "status": verdict.status,
            "reason": verdict.reason,
            "check": verdict.check,
            "numerics": verdict.numerics,
            **variant.of_compilers(),
            "details": details,
        }

    def describe(self, argv: list[str]) -> dict[str, Any]:
        """What machine this process sees: environment.describe."""
        from harness.machine import environment

        self.now("check", None)
        return environment.describe(argv)

    def time(self, cases: Mapping[str, Case], repeated: str, options: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """Times `cases` (label -> case, all of one problem) together, and `repeated` a second time as "... again".

        The answer, label -> fields of the timing row, is also sent before the host latencies are measured, so that a
        failure there costs nothing else. `options` go to timing.time_group. Inputs are the operator's first
        distribution, seed 0; outputs are poisoned before the first timed launch and judged after the last.
        """
        from harness.machine import clocks
        from harness.measure import gate, timing

        self.now("check", None)
        inputs = self._inputs(cases)
        calls, written = self._prepared(cases, inputs)
        on_gpu = self._device == "cuda"
        self.now("load", None)
        kernel_clock = _kernel_clock() if on_gpu else None
        timings = timing.time_group(
            {**calls, f"{repeated} again": calls[repeated]},
            stopwatch=timing.CudaStopwatch() if on_gpu else timing.HostStopwatch(),
            notify=self.launching,
            source=clocks.device(_uuid()) if on_gpu else None,
            kernel_clock=kernel_clock,
            **options,
        )
        rows = {label: asdict(result) for label, result in timings.items()}
        for label, case in cases.items():
            self.now("check", label)
            verdict = gate.judge_timed(written(label), inputs, case.problem, peer=case.is_peer)
            if not verdict.passed:
                reason = f"last timed output: {verdict.reason}"
                rows[label] |= {"status": "wrong", "reason": reason, "check": verdict.check}
        self._connection.send(("partial", rows))
        if on_gpu:
            for measure in ("launcher", "graph"):
                for label, case in cases.items():
                    if measure == "graph" and case.technique is None:
                        continue
                    self.now("launch", label)
                    launches = timing.launches_for(statistics.median(timings[label].samples_ms))
                    rows[label].setdefault("call_us", {})[measure] = (
                        timing.host_latency(calls[label], synchronize=self._synchronize, launches=launches)
                        if measure == "launcher"
                        else timing.graph_latency(calls[label], launches=launches)
                    )
        return rows

    def _inputs(self, cases: Mapping[str, Case]) -> Inputs:
        """The inputs of timed launches, for cases of one problem."""
        from harness import operators
        from harness.measure import arenas

        problem = next(iter(cases.values())).problem
        return arenas.make(problem, operators.of(problem).distributions[0], 0, self._device)

    def _prepared(
        self, cases: Mapping[str, Case], inputs: Inputs
    ) -> tuple[dict[str, Callable[[], None]], Callable[[str], dict[str, Any]]]:
        """Label -> a call of its kernel, launched twice already, with its outputs poisoned since; and what the last
        call of a label returned. A user's kernel may leave optional outputs out."""
        from harness.measure import arenas

        calls: dict[str, Callable[[], None]] = {}
        outputs, returned = {}, {}
        for label, case in cases.items():
            self.now("load", label)
            out = outputs[label] = arenas.make_outputs(case.problem, self._device)
            bound = self._load(case).bind({**inputs.tensors, **out.tensors}, inputs.scalars)

            def call(label: str = label, bound: Any = bound) -> None:
                returned[label] = bound()

            self.now("launch", label)
            for _ in range(2):
                call()
                self._synchronize()
            calls[label] = call
        for output in outputs.values():
            output.poison()

        def written(label: str) -> dict[str, Any]:
            out = outputs[label]
            missing = [out.tensors[name] for name in out.left_out()] if cases[label].kernel else []
            found = returned[label].items()
            return {name: one for name, one in found if one is not None and not any(one is each for each in missing)}

        return calls, written

    def cupti(self, cases: Mapping[str, Case], rounds: int) -> dict[str, dict[str, Any]]:
        """Times `cases` (label -> case, all of one problem) by CUDA events, then by CUPTI, with the rests of burst
        mode: the fields of their timing rows by CUPTI. The inputs change twice meanwhile, and the last outputs must be
        of the last inputs."""
        import torch

        from harness import operators
        from harness.machine import clocks
        from harness.measure import cupti, gate, timing

        self.now("check", None)
        inputs = self._inputs(cases)
        problem = next(iter(cases.values())).problem
        operator = operators.of(problem)
        last, middle, first = (
            operator.inputs(problem, operator.distributions[0], seed, self._device) for seed in (0, 1, 2)
        )
        upcoming = iter((first, middle, last))

        def change() -> None:
            inputs.overwrite(next(upcoming))

        change()
        calls, written = self._prepared(cases, inputs)
        self.now("launch", None)
        stopwatch = timing.CudaStopwatch()
        timed = {**calls, "empty": lambda: torch.cuda._sleep(1)}
        source = clocks.device(_uuid())
        timings = timing.time_group(
            timed,
            stopwatch=stopwatch,
            min_samples=rounds,
            target=math.inf,
            limit=math.inf,
            notify=self.launching,
            source=source,
        )
        by_events = {label: result.samples_ms for label, result in timings.items()}
        milliseconds = {label: statistics.median(samples) for label, samples in by_events.items()}
        loads = [{label: timed[label] for label in load} for load in timing.loads(list(timed), milliseconds)]
        self.now("check", None)
        with clocks.Sampler(source) as sampler:

            def rest(seconds: float) -> None:
                timing.cool(sampler, stopwatch, busy=seconds)

            trace, numbers = cupti.record(loads, change, stopwatch.flush, stopwatch.hold, rest, rounds)
        observed = cupti.judge(trace, numbers)
        gap_ms = milliseconds["empty"] - statistics.median(observed["empty"].samples_ms)
        rows = {}
        for label, case in cases.items():
            self.now("check", label)
            rows[label] = cupti.fields(observed[label], by_events[label], gap_ms)
            verdict = gate.judge_timed(written(label), inputs, case.problem, peer=case.is_peer)
            if not verdict.passed:
                reason = f"{cupti.FAULTS['kept_results']}, or another output: {verdict.reason}"
                rows[label] |= {"status": "wrong", "reason": reason, "check": "kept_results"}
        return rows

    def _load(self, case: Case) -> Any:
        """The variant of a case, loaded once for all groups of its problem: a peer may compile for seconds."""
        if any(other.problem != case.problem for other in self._loaded):
            self._loaded.clear()
        if case not in self._loaded:
            self._loaded[case] = self._loader.load(case, self._on)
        return self._loaded[case]

    def _synchronize(self) -> None:
        if self._device == "cuda":
            import torch

            torch.cuda.synchronize()


def status_of(error: BaseException, stage: str) -> str:
    """The row's status for what a case raised while the worker was at `stage`.

    Classes are known by name: those of harness.build, and Triton's, which must not be imported for this.
    """
    import torch

    names = {cls.__name__ for cls in type(error).__mro__}
    # Triton's OutOfResources comes before the launch: the tile does not fit.
    if names & {"Unsupported", "OutOfResources"}:
        return "unsupported"
    if isinstance(error, torch.OutOfMemoryError | MemoryError) or "can't allocate memory" in str(error):
        return "out_of_memory"
    if isinstance(error, OSError) and error.errno in files.UNWRITABLE:
        return "interrupted"  # a full disk says nothing about the kernel: the case is done again
    # Triton's own passes fail as a RuntimeError.
    if names & {"CompileError", "CompilationError", "PTXASError"} or "PassManager::run failed" in str(error):
        return "compile_error"
    if getattr(error, "code", None) == LAUNCH_TIMEOUT:
        return "timeout"
    if "AcceleratorError" in names or "CUDA error" in str(error) or getattr(error, "code", None) in STICKY:
        return "cuda_error"
    if "DataRace" in names:
        return "data_race"
    if "LaunchError" in names:
        return "launch_error"
    return {"load": "import_error", "launch": "launch_error"}.get(stage, "crashed")


def _reason(error: BaseException) -> str:
    """The first line of what went wrong, or its beginning; the whole is in the log. Of a compiler, which speaks below
    a headline, its first error too. Of Python code, the line of the kernel."""
    message = headline(str(error))[:LOG_TAIL]
    if message and type(error).__module__.startswith(
        ("harness.build.", "harness.measure.", "harness.operators.")
    ):  # the status says what its class would
        return message
    frames = reversed(traceback.extract_tb(error.__traceback__))
    where = places((frame.filename, frame.lineno or 0, frame.name) for frame in frames)
    return f"{type(error).__name__}: {message}".removesuffix(": ") + where


def _diagnosis(error: BaseException) -> dict[str, Any]:
    """What the CPU runtime said, line by line, and the name of the first as the check that failed."""
    lines = getattr(error, "lines", None)
    return {"check": lines[0].partition(":")[0], "diagnosis": lines} if lines else {}


def _uuid() -> str | None:
    import torch

    return str(getattr(torch.cuda.get_device_properties(torch.cuda.current_device()), "uuid", "")) or None


def _kernel_clock() -> Any:
    """harness.build.sm_clocks of the GPU here; None where no compiler makes it, which the log says."""
    from harness.build import sm_clocks
    from harness.operators.errors import CompileError

    try:
        return sm_clocks.of_this_gpu()
    except CompileError as error:
        print(f"rows carry no clock_ghz: {error}", flush=True)
        return None


def serve(descriptor: int, loader: str, on: str, deadlines: Deadlines) -> None:
    """Answers requests until the runner hangs up."""
    os.set_inheritable(descriptor, False)  # a compiler that survives us must not keep the connection open
    die_with_parent()
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1)  # of all threads: the system chooses which one gets a signal
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})  # whoever started this may have blocked it
    watch = Watch(deadlines)
    watch.begin("start")
    connection = Connection(descriptor)
    service = Service(connection, importlib.import_module(loader), on, watch)
    connection.send(("done", None))
    while True:
        watch.end()
        try:
            method, arguments = connection.recv()
        except EOFError:
            return
        try:
            answer = getattr(service, method)(*arguments)
        except Exception as error:
            traceback.print_exc()
            sys.stderr.flush()
            connection.send(("failed", status_of(error, service.stage), _reason(error), _diagnosis(error)))
        else:
            connection.send(("done", answer))


if __name__ == "__main__":
    serve(int(sys.argv[1]), sys.argv[2], sys.argv[3], Deadlines(**json.loads(sys.argv[4])))
