"""A process that answers requests and says where it is; harness.measure.worker holds the other end."""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from harness.machine.environment import headline
from harness.machine.processes import die_with_parent
from harness.measure.worker import LOG_TAIL, UNHEARD, Deadlines, Failed, Stage, places
from harness.rows import files

if TYPE_CHECKING:
    from harness.catalog.cases import Case
    from harness.measure.arenas import Outputs

LAUNCH_TIMEOUT = 702
"""CUDA's error, and a CPU's, of a kernel that goes on for ever."""
STICKY = frozenset((700, LAUNCH_TIMEOUT, 710, 714, 715, 716, 717, 718, 719))
"""CUDA errors of a kernel that ran (illegal address, launch failure, ...): the context is lost with it."""


class Watch:
    """Has faulthandler tell the log where all threads are, UNHEARD seconds after a deadline: where no thread heard the
    runner's signal, since a driver may hold signals back. It cannot do so at once, as it reads the frames of threads
    that may be running."""

    STEP = 1.0
    """Seconds: each beginning starts a thread, which is too dear for many short launches."""

    def __init__(self, deadlines: Deadlines) -> None:
        self.deadlines = deadlines
        self._begun: tuple[Stage, float] | None = None

    def begin(self, stage: Stage) -> None:
        now = time.monotonic()
        if self._begun is None or stage != self._begun[0] or now > self._begun[1] + self.STEP:
            self._begun = stage, now
            faulthandler.dump_traceback_later(getattr(self.deadlines, stage) + self.STEP + UNHEARD)

    def end(self) -> None:
        self._begun = None
        faulthandler.cancel_dump_traceback_later()


class Process:
    """A process that answers requests: it says where it is, and loads cases by the module `loader`, which it imports
    when it starts."""

    def __init__(self, connection: Connection, loader: str, on: str, watch: Watch | None = None) -> None:
        self._connection, self._watch = connection, watch
        self._named, self._on, self._device = loader, on, "cuda" if on == "gpu" else "cpu"
        self._loaded: dict[Case, Any] = {}
        self.stage: Stage = "start"

    def start(self) -> None:
        self._loader: Any = importlib.import_module(self._named)
        self.say("done", None, None)

    def say(self, *words: Any) -> None:
        """Sends a message as JSON: nothing that arrives there can be more than data."""
        self._connection.send_bytes(json.dumps(words).encode())

    def now(self, stage: Stage, label: str | None) -> None:
        """Tells who asked which case is at which stage: its deadline begins anew."""
        self.stage = stage
        if self._watch:
            self._watch.begin(stage)
        self.say("now", stage, label)

    def _load(self, case: Case) -> Any:
        """The variant of a case, loaded once for all groups of its problem: a peer may compile for seconds."""
        if any(other.problem != case.problem for other in self._loaded):
            self._loaded.clear()
        if case not in self._loaded:
            self._loaded[case] = self._loader.load(case, self._on)
        return self._loaded[case]

    def load(self, case: Case, label: str) -> str:
        """Loads a case and returns its label: what it leaves out."""
        self.now("load", label)
        return str(self._load(case).label)

    def launched(
        self, case: Case, label: str, tensors: Mapping[str, Any], scalars: Mapping[str, Any], order: int | None
    ) -> float:
        """Milliseconds of a launch; on a CPU `order` is that of its warps."""
        variant = self._load(case)
        self.now("launch", label)
        if order is not None:
            variant.schedule(order)
        start = time.perf_counter()
        variant.launch(tensors, scalars)
        self._synchronize()
        return (time.perf_counter() - start) * 1e3

    def of_compilers(self, case: Case) -> dict[str, Any]:
        return dict(self._load(case).of_compilers())

    def _bound(
        self, cases: Mapping[str, Case], copies: Sequence[Mapping[str, Any]], scalars: Mapping[str, Any]
    ) -> dict[str, list[Any]]:
        """Label -> a call of its kernel for each copy of the inputs, the last of them launched twice already; its
        outputs are poisoned since."""
        from harness.measure import arenas

        calls: dict[str, list[Any]] = {}
        outputs: dict[str, Outputs] = {}
        for label, case in cases.items():
            self.now("load", label)
            outputs[label] = arenas.make_outputs(case.problem, self._device)
            bind = self._load(case).bind
            calls[label] = [bind({**inputs, **outputs[label].tensors}, scalars) for inputs in copies]
            self.now("launch", label)
            for _ in range(2):
                calls[label][-1]()
                self._synchronize()
        for output in outputs.values():
            output.poison()
        return calls

    def _synchronize(self) -> None:
        if self._device == "cuda":
            import torch

            torch.cuda.synchronize()


def status_of(error: BaseException, stage: str) -> str:
    """The row's status for what a case raised while the worker was at `stage`. Classes are known by name: those of
    harness.build, and Triton's, which must not be imported for this."""
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
    of_compilers = {"CompileError", "CompilationError", "PTXASError", "ToolchainError"}
    if names & of_compilers or "PassManager::run failed" in str(error):
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


def told(error: Exception, stage: str) -> tuple[str, str, dict[str, Any]]:
    """Status, reason, and what a row says beside, of an error at a stage."""
    try:
        return status_of(error, stage), _reason(error), _diagnosis(error)
    except Exception as another:  # its words may be a user's code, too
        return "launch_error", f"{type(error).__name__}, whose words raise {type(another).__name__}", {}


def serve(descriptor: str, deadlines: str, make: Callable[[Connection, Watch], Process]) -> None:
    """Answers requests until whoever asks hangs up. The first two are as a Worker passes them."""
    os.set_inheritable(int(descriptor), False)  # a compiler that survives us must not keep the connection open
    die_with_parent()
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1)  # of all threads: the system chooses which one gets a signal
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})  # whoever started this may have blocked it
    watch = Watch(Deadlines(**json.loads(deadlines)))
    watch.begin("start")
    connection = Connection(int(descriptor))
    process = make(connection, watch)
    process.start()
    while True:
        watch.end()
        try:
            token, method, arguments = connection.recv()
        except EOFError:
            return
        try:
            answer = getattr(process, method)(*arguments)
        except Failed as failure:  # of a process below this one
            status, reason, details, check = (failure.fields.get(k) for k in ("status", "reason", "details", "check"))
            more = {**(details or {}), **({"check": check} if check else {})}
            process.say("failed", (status, reason, more), "elsewhere")
        except Exception as error:
            traceback.print_exc()
            sys.stderr.flush()
            process.say("failed", told(error, process.stage))
        else:
            process.say("done", token, answer)
