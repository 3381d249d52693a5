"""What runs in a worker's process: kernels are loaded, judged and timed at the runner's request.

`python -m harness.measure.service DESCRIPTOR LOADER ON DEADLINES LOG` is such a process; harness.measure.worker holds
the other end. A user's kernel is launched in a process below this one (harness.measure.verifier), and judged here.
"""

from __future__ import annotations

import functools
import itertools
import math
import secrets
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.measure.process import Process, Watch, serve
from harness.measure.worker import TELLING, UNHEARD, Deadlines, GateOptions, Isolation

if TYPE_CHECKING:
    from harness.catalog.cases import Case
    from harness.measure import timing
    from harness.measure.arenas import Inputs, Outputs
    from harness.measure.verifier import Failure
    from harness.operators.protocol import Problem

OF_COMPILERS = ("code", "mma", "compiler", "compile_s")
"""Fields of a gate's row that come from the process that loaded the kernel."""
GRACE = TELLING + UNHEARD + 5.0
"""Seconds in which the process of a user's kernel is given up and asked where it is."""
MUCH_SLOWER = 1.5
"""A case whose first sample takes more than so many times the best time is not sampled again."""


class Service(Process):
    """What the runner may ask for, run in the process. `log` is where a kernel's process writes too."""

    def __init__(
        self, connection: Connection, loader: str, on: str, deadlines: Deadlines, log: Path, watch: Watch | None = None
    ) -> None:
        super().__init__(connection, loader, on, watch)
        self._deadlines, self._log = deadlines, log
        self._isolations: list[Isolation] = []
        self._arena: tuple[Problem, Inputs, Outputs] | None = None
        """What the newest sample was launched on."""
        self._clock: timing.Stopwatch | None = None
        """Of samples. On a GPU it holds memory for the flush: twice the L2 cache."""
        self._seed = secrets.randbelow(2**31)
        """Of the inputs of users' kernels: none can have been prepared for them."""

    def isolations(self, loop: Path | None = None) -> list[Isolation]:
        """The live process for users' kernels. With `loop`, the library of the timing loop, it can time, and so can a
        second one, which loads no kernel. The runner ends them, too, if it must."""
        count = 2 if loop else 1
        if len(self._isolations) < count or not all(one.alive for one in self._isolations):
            self.end_isolation()
            for _ in range(count):
                isolation = Isolation(loop, self._named, self._on, self._log, self._deadlines, self._relay)
                self._isolations.append(isolation)
                self.say("group", isolation.pid)
        return self._isolations

    def end_isolation(self) -> None:
        while self._isolations:
            self._isolations.pop().kill()

    def _relay(self, stage: Any, label: str) -> None:
        """Passes on where the kernel's process is. It is given up there first, and its own threads say where they
        are."""
        self.stage = stage
        if self._watch:
            self._watch.end()
        self.say("now", stage, label, GRACE)

    def launching(self, _step: str, label: str) -> None:
        """What a stopwatch tells of a call: each has the deadline of a launch of its own."""
        self.now("launch", label.removesuffix(" again"))

    def gate(self, case: Case, label: str, options: GateOptions) -> dict[str, Any]:
        """Loads and judges one case: the fields of its gate row."""
        from harness.measure import gate

        self.now("load", label)
        isolated = self.isolations()[0] if case.kernel else None
        seeds = tuple(self._seed + seed for seed in options.seeds) if isolated else options.seeds
        if isolated:  # computed while the kernel's process starts
            gate.expect(case.problem, options.distributions[0], seeds[0], self._device)
        self._loaded.clear()  # the memory of the case before is free
        name = isolated.call("load", case, label) if isolated else self.load(case, label)
        launched = isolated.launch if isolated else self.launched
        launches_ms: list[float] = []
        orders = itertools.cycle(options.scheduler_seeds or (None,))

        def launch(tensors: Mapping[str, Any], scalars: Mapping[str, Any]) -> None:
            launches_ms.append(launched(case, label, tensors, scalars, next(orders)))
            self.now("check", label)

        self.now("check", label)
        verdict = gate.gate(
            launch,
            case.problem,
            distributions=options.distributions,
            seeds=seeds,
            device=self._device,
            repeats=options.repeats,
            padded=options.padded,
            peer=case.is_peer,
            may_leave_out=case.kernel is not None,
            may_vary=options.may_vary,
        )
        details: dict[str, Any] = {"label": name, "launch_ms": min(launches_ms)}
        if verdict.varied:
            details["varied"] = list(verdict.varied)
        if options.padded:
            details["padded"] = True
        if case.kernel and verdict.left_out:
            details["label"] = f"no {', '.join(verdict.left_out).upper()}"
        compilers = isolated.call("of_compilers", case) if isolated else self.of_compilers(case)
        if isolated and not verdict.passed:
            self.end_isolation()  # who knows what else a wrong kernel wrote to
        return {
            "status": verdict.status,
            "reason": verdict.reason,
            "check": verdict.check,
            "numerics": verdict.numerics,
            **{name: compilers.get(name) for name in OF_COMPILERS},  # a kernel's process may have put in more
            "details": details,
        }

    def sample(self, case: Case, label: str, launches: int, best_ms: float) -> float:
        """Milliseconds of the fastest of so many launches of a case on the operator's first distribution, timed as in a
        group but alone; of the first one where that is much slower than `best_ms`. Nobody looks at what it writes."""
        from harness.measure import arenas, timing

        self.now("load", label)
        if self._arena is None or self._arena[0] != case.problem:
            self._arena = None  # its memory is free
            self._arena = case.problem, self._inputs(case.problem), arenas.make_outputs(case.problem, self._device)
        _, inputs, outputs = self._arena
        if self._clock is None:
            self._clock = timing.of_mode("burst", self._device)
        self._loaded.clear()
        call = self._load(case).bind({**inputs.tensors, **outputs.tensors}, inputs.scalars)
        self.now("launch", label)
        call()
        self._synchronize()
        (first,) = self._clock.measure([(label, call)], self.launching)
        if first > MUCH_SLOWER * best_ms:
            return first
        return min(first, *self._clock.measure([(label, call)] * (launches - 1), self.launching))

    def describe(self, argv: list[str]) -> dict[str, Any]:
        from harness.machine import environment

        self.now("check", None)
        return environment.describe(argv)

    def time(self, cases: Mapping[str, Case], repeated: str, options: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """Times `cases` (label -> case, all of one problem) together, and `repeated` a second time as "... again".

        The answer is label -> fields of the timing row. `options` go to timing.time_group. Inputs are the operator's
        first distribution, seed 0; outputs are poisoned before the first timed launch and judged after the last.
        """
        from harness.machine import clocks
        from harness.measure import timing

        mode, on_gpu, own = options.get("mode", "burst"), self._device == "cuda", _is_own(cases)
        group = self._own_group(cases) if own else self._group(cases, mode)
        self.now("load", None)
        timings = timing.time_group(
            {**group.calls, f"{repeated} again": group.calls[repeated]},
            stopwatch=group.stopwatch,
            notify=self.launching,
            source=clocks.device(_uuid()) if on_gpu else None,
            kernel_clock=_kernel_clock() if on_gpu and not own else None,
            **options,
        )
        rows = {label: asdict(result) for label, result in timings.items()}
        self._judge(rows, group, {label: result.samples_ms for label, result in timings.items()})
        for label in cases if mode == "idle" and not own else ():
            if rows[label]["status"] != "wrong":
                self.launching("launch", label)
                latency = timing.host_latency(group.calls[label], synchronize=self._synchronize)
                rows[label]["call_us"] = {"launcher": latency}
        return rows

    def _group(self, cases: Mapping[str, Case], mode: str = "burst", seed: int = 0) -> _Group:
        """A group that is timed in this process; its calls are made twice already."""
        from harness.measure import gate, timing

        self.now("check", None)
        inputs = self._inputs(next(iter(cases.values())).problem, seed)
        bound = self._bound(cases, [inputs.tensors], inputs.scalars)
        returned: dict[str, dict[str, Any]] = {}

        def call(label: str) -> None:
            returned[label] = bound[label][0]()

        def failures(_: Mapping[str, float]) -> Iterator[tuple[str, Failure]]:
            for label, case in cases.items():
                self.now("check", label)
                verdict = gate.judge_timed(returned[label], inputs, case.problem, peer=case.is_peer)
                if not verdict.passed:
                    yield label, ("wrong", str(verdict.check), f"last timed output: {verdict.reason}")

        calls = {label: functools.partial(call, label) for label in cases}
        return _Group(calls, timing.of_mode(mode, self._device), failures, inputs)

    def _own_group(self, cases: Mapping[str, Case]) -> _Group:
        """A group with a user's kernel: all of it is timed in that kernel's process."""
        from harness.build import plain_library
        from harness.measure import verifier

        self.now("check", None)
        problem = next(iter(cases.values())).problem
        isolations = self.isolations(plain_library(verifier.LOOP))
        watch = verifier.Stopwatch(isolations, problem, self._device, cases)
        return _Group(dict.fromkeys(cases), watch, watch.failures)

    def _judge(
        self, rows: Mapping[str, dict[str, Any]], group: _Group, samples_ms: Mapping[str, Sequence[float]]
    ) -> None:
        self.now("check", None)
        for label, (status, check, reason) in group.failures(
            {label: statistics.median(samples_ms[label]) for label in group.calls}
        ):
            rows[label] |= {"status": status, "check": check, "reason": reason}

    def _inputs(self, problem: Problem, seed: int = 0) -> Inputs:
        from harness import operators
        from harness.measure import arenas

        return arenas.make(problem, operators.of(problem).distributions[0], seed, self._device)

    def cupti(self, cases: Mapping[str, Case], rounds: int) -> dict[str, dict[str, Any]]:
        """Times `cases` (label -> case, all of one problem) by CUDA events, then by CUPTI, with the rests of burst
        mode: the fields of their timing rows by CUPTI. The inputs change twice meanwhile, and the last outputs must be
        of the last inputs."""
        import torch

        from harness import operators
        from harness.machine import clocks
        from harness.measure import cupti, timing

        own = _is_own(cases)
        group = self._own_group(cases) if own else self._group(cases, seed=2)
        timed = {**group.calls, "empty": lambda: torch.cuda._sleep(1)}
        source = clocks.device(_uuid())
        endless: dict[str, Any] = {"min_samples": rounds, "target": math.inf, "limit": math.inf}
        self.now("launch", None)
        timings = timing.time_group(timed, stopwatch=group.stopwatch, notify=self.launching, source=source, **endless)
        by_events = {label: result.samples_ms for label, result in timings.items()}
        milliseconds = {label: statistics.median(samples) for label, samples in by_events.items()}
        loads = list(timing.loads(list(timed), milliseconds))
        self.now("check", None)
        if own:
            trace, numbers = group.stopwatch.isolation.call("cupti", loads, rounds)
        else:
            problem = next(iter(cases.values())).problem
            operator, seeds = operators.of(problem), iter((1, 0))

            def change() -> None:
                group.inputs.load(operator.inputs(problem, operator.distributions[0], next(seeds), self._device))

            calls = [{label: timed[label] for label in load} for load in loads]
            trace, numbers = cupti.record(calls, change, group.stopwatch, source, rounds)
        observed = cupti.judge(trace, numbers)
        gap_ms = milliseconds["empty"] - statistics.median(observed["empty"].samples_ms)
        rows = {label: cupti.fields(observed[label], by_events[label], gap_ms) for label in cases}
        self._judge(rows, group, by_events)
        return rows


@dataclass(frozen=True)
class _Group:
    """Cases that are timed together. `calls`: label -> its call, None where another process makes it. `failures` takes
    the median milliseconds by label, and yields labels and what is wrong with them. `inputs`: those of calls made here.
    """

    calls: Mapping[str, Any]
    stopwatch: Any
    failures: Callable[[Mapping[str, float]], Iterable[tuple[str, Failure]]]
    inputs: Any = None


def _is_own(cases: Mapping[str, Case]) -> bool:
    return any(case.kernel for case in cases.values())


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


def main(descriptor: str, loader: str, on: str, deadlines: str, log: str, own: str = "") -> None:
    """Answers the runner. Where a kernel of the user's comes first, `own`, its process starts with this one."""

    def make(connection: Connection, watch: Watch) -> Service:
        service = Service(connection, loader, on, watch.deadlines, Path(log), watch)
        if own:
            service.isolations()
        return service

    serve(descriptor, deadlines, make)


if __name__ == "__main__":
    main(*sys.argv[1:])
