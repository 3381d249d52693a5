"""The runner's handle on a process that a bad kernel may kill. What runs in it is harness.measure.service.

The two talk over a private socket; what a kernel prints goes to the run's log. The process says which case it is about
to load, launch or check. Each stage has a deadline of its own: a process that exceeds it is killed.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import linecache
import mmap
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from harness.catalog.sources import ROOT
from harness.machine.environment import scrub
from harness.machine.processes import ending
from harness.rows.results import STATUSES

if TYPE_CHECKING:
    import torch

HARMLESS = ("unsupported", "compile_error", "import_error")
"""Failures after which the process is as good as before: nothing of the kernel ever ran in it."""
TELLING = 20.0
"""Seconds that a process has at most to say where it is before it is killed: a busy machine takes its time."""
UNHEARD = 10.0
"""Seconds after which a process that did not hear the signal says it all the same."""
NOT_KERNELS = (
    f"{ROOT / 'harness'}{os.sep}",
    *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")),
    "<",
)
"""Where files lie that hold no kernel: the harness, the standard library, installed packages."""
PACKAGES = {"site-packages", "dist-packages"}
"""Folders of packages, also of the Python that a virtual environment was made from."""
INNERMOST = 4
"""Functions that a reason names of those that call each other; the log has all."""
WAITING = {"OMP_WAIT_POLICY": "PASSIVE"}
"""Threads that have nothing to do sleep: those of one process would take the cores from the next one's."""
LOOK = 0.2
"""Seconds after which a process that says nothing is looked at: it may have ended."""
FAILURES = tuple(status for status in STATUSES if status != "passed")
"""Statuses with which a process may end a call; none says that a kernel is right."""
SHARED = 2**36
"""Bytes of address space for what a user's kernel is given and returns; the system has those that were written."""
LOG_TAIL = 4000
"""Characters of compiler and kernel output that a row keeps; the log has all of it."""


@dataclass(frozen=True)
class Deadlines:
    """Seconds that a worker may spend in one stage: starting; compiling and loading one case, which also holds for the
    compilers that run ahead of it; one launch, in the first of which Triton compiles; computing and judging."""

    start: float = 120.0
    load: float = 300.0
    launch: float = 120.0
    check: float = 300.0


Stage = Literal["start", "load", "launch", "check"]
"""The fields of Deadlines."""


@dataclass(frozen=True)
class GateOptions:
    """How a case is gated. All but the last go to measure.gate. `scheduler_seeds`: launches on a CPU take these orders
    of warps in turn."""

    distributions: tuple[str, ...] = ("normal",)
    seeds: tuple[int, ...] = (0,)
    repeats: int = 10
    padded: bool = False
    may_vary: bool = False
    scheduler_seeds: tuple[int, ...] = ()


class Failed(Exception):
    """A case ended its worker. `fields` are the row's status, reason and details, `label` says which case it was (None
    when it was none), `stage` what it was doing. `elsewhere`: it was another process that ended, and the worker goes
    on."""

    elsewhere = False

    def __init__(self, fields: dict[str, Any], label: str | None, stage: str) -> None:
        super().__init__(fields["reason"])
        self.fields, self.label, self.stage = fields, label, stage


class Worker:
    """A Python process with `environment` set before it imports anything.

    `loader` is a module with `load(case, on)`, such as harness.build; `log` is appended to; `told` hears which case
    is at which stage. The first call waits until it has started.
    """

    MODULE = "harness.measure.service"

    def __init__(
        self,
        environment: Mapping[str, str],
        loader: str,
        on: str,
        log: Path,
        deadlines: Deadlines,
        told: Callable[[str, str], object] = lambda stage, label: None,
        *,
        extra: Sequence[str] = (),
        descriptors: Sequence[int] = (),
    ) -> None:
        ours, theirs = socket.socketpair()
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        self._log = log
        self._told = told
        self._deadlines = deadlines
        with log.open("ab") as output, theirs:
            self._begin: int | None = log.stat().st_size  # None once it has started
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",  # nothing is imported from the working folder, which may be a stranger's
                    "-m",
                    self.MODULE,
                    str(theirs.fileno()),
                    loader,
                    on,
                    json.dumps(asdict(deadlines)),
                    str(log),
                    *extra,
                ],
                env={**WAITING, **os.environ, **environment, "PYTHONPATH": path},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=[theirs.fileno(), *descriptors],
                start_new_session=True,  # Ctrl-C in the terminal is the runner's to handle
            )
        self._connection = Connection(ours.detach())
        self._groups = [self._process.pid]

    def call(self, method: str, *arguments: Any) -> Any:
        """Runs a method of the process. Raises Failed: the process is gone then, unless the failure was HARMLESS or
        elsewhere. Raises RuntimeError when it does not start, which is no kernel's fault."""
        try:
            if self._begin is not None:
                begin, self._begin = self._begin, None
                try:
                    self._receive(begin)
                except Failed as failure:
                    raise RuntimeError(
                        f"worker: {failure.fields['reason']}; {failure.fields['details'].get('log')}; "
                        f"this is no kernel's fault, `twinkernels doctor` says what is missing"
                    ) from None
            begin, token = self._log.stat().st_size, secrets.token_hex(8)  # before the process can say a word
            with contextlib.suppress(BrokenPipeError):  # it died while idle: receiving says how
                self._connection.send((token, method, arguments))
            return self._receive(begin, token)
        except BaseException as error:  # Ctrl-C included: half an answer may be on its way
            if not (isinstance(error, Failed) and (error.elsewhere or error.fields["status"] in HARMLESS)):
                self.kill()
            raise

    @property
    def pid(self) -> int:
        """Of the process, and of the group that it began."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it takes calls. A process that died by itself counts until a call finds out."""
        return not self._connection.closed

    def kill(self) -> None:
        """Ends the process and all that it started (compilers, processes of kernels)."""
        for group in self._groups:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        self._process.wait()
        self._connection.close()

    def _receive(self, log_start: int, token: str | None = None) -> Any:
        """The answer to the call of this token, which the log tells of from `log_start` on. Heartbeats on the way move
        the deadline."""
        stage, label = "start", None
        end = time.monotonic() + self._deadlines.start

        def failed(status: str, reason: str, check: str | None = None, **details: Any) -> Failed:
            with self._log.open("rb") as log:
                log.seek(log_start)
                output = log.read().decode(errors="replace")
            details = {"stage": stage, **details}
            if output.strip():
                details["log"] = scrub(output.strip())[-LOG_TAIL:]
            fields = {"status": status, "reason": reason, "details": details}
            return Failed({**fields, "check": check} if check else fields, label, stage)

        while True:
            try:
                if not self._arrives(end):
                    allowed = getattr(self._deadlines, stage)
                    reason = f"no sign of life for {allowed:g} s (stage {stage}){self._whereabouts()}"
                    raise failed("timeout", reason, deadline_s=allowed)
                said = self._connection.recv_bytes()
            except (EOFError, ConnectionResetError):
                raise failed("crashed", f"the process ended (stage {stage}): {ending(self._process.wait())}") from None
            try:
                kind, *content = json.loads(said)
                if kind == "now":
                    stage, label, *grace = content
                    if label:
                        self._told(stage, label)
                    end = time.monotonic() + getattr(self._deadlines, stage) + sum(grace)
                elif kind == "group":
                    self._groups.append(content[0])
                elif kind == "failed":
                    (status, reason, more), *elsewhere = content
                    failure = failed(FAILURES[FAILURES.index(status)], "" + reason, **more)  # words, or TypeError
                    failure.elsewhere = bool(elsewhere)
                    raise failure
                elif (kind, content[0]) == ("done", token):
                    return content[1]
                else:
                    raise ValueError(kind)
            except (ValueError, TypeError, LookupError, AttributeError):
                reason = f"the process answered what nobody asked for: {said[:80]!a}"
                raise failed("implausible", reason, "forged_answer") from None

    def _arrives(self, end: float) -> bool:
        """Waits for a word until `end`. Raises EOFError where the process is gone, though a child of its own may hold
        the connection."""
        while not self._hears(max(0.0, min(LOOK, end - time.monotonic()))):
            if self._process.poll() is not None and not self._connection.poll(0.0):
                raise EOFError
            if time.monotonic() > end:
                return False
        return True

    def _hears(self, seconds: float) -> bool:
        return self._connection.poll(seconds)

    def _whereabouts(self) -> str:
        """`places` of the process; its faulthandler tells the log, whatever the process waits for."""
        begin = self._log.stat().st_size
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGUSR1)
        said, before, end = "", None, time.monotonic() + TELLING
        while self._process.poll() is None and time.monotonic() < end and (not said or said != before):
            time.sleep(0.2)  # until it has said something, and no more
            with self._log.open("rb") as log:
                log.seek(begin)
                before, said = said, log.read().decode(errors="replace")
        _, _, of_main = said.rpartition("hread 0x")  # "Thread 0x..." or "Current thread 0x...": the oldest comes last
        frames = re.findall(r'^  File "(.+)", line (\d+) in (.+)$', of_main, re.MULTILINE)
        return places((file, int(line), function) for file, line, function in frames)


class Isolation(Worker):
    """A process for kernels. With `loop`, a build of loop.cpp, it can time: draws go to it through `channel`, and times
    come back, into `sent`. Torch is imported when it is used, so that processes can start side by side."""

    MODULE = "harness.measure.isolated"

    def __init__(self, loop: Path | None, *worker: Any) -> None:
        """`worker`: what a Worker takes behind its environment."""
        self.sent, self.arrived = bytearray(), 0.0
        self.channel, theirs = socket.socketpair()
        memory = os.memfd_create("twinkernels", os.MFD_ALLOW_SEALING)
        os.ftruncate(memory, SHARED)
        fcntl.fcntl(memory, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)  # nobody can pull it from under this process
        self.memory = mmap.mmap(memory, SHARED)
        with theirs, open(memory):
            shared = memory, theirs.fileno()
            super().__init__({}, *worker, extra=(*map(str, shared), str(loop or "")), descriptors=shared)

    def _hears(self, seconds: float) -> bool:
        """Also reads what the timing loop sends, which blocks until then: all of a batch before the process answers."""
        heard = self._connection in wait([self._connection, self.channel], seconds)
        while wait([self.channel], 0) and (part := self.channel.recv(2**20)):
            self.arrived = self.arrived if self.sent else time.monotonic()
            self.sent += part
        return heard

    def launch(
        self, case: Any, label: str, tensors: Mapping[str, torch.Tensor], scalars: Any, order: int | None
    ) -> float:
        """Launches the case on these values there, and reads back what all tensors and their surroundings hold then.
        Returns the milliseconds that it is said to have taken."""
        import torch

        layouts = {name: (one.dtype, one.shape, one.stride(), one.storage_offset()) for name, one in tensors.items()}
        storages = [one.new_empty(0, dtype=torch.uint8).set_(one.untyped_storage()) for one in tensors.values()]
        sizes = [storage.numel() for storage in storages]
        parts = torch.frombuffer(self.memory, dtype=torch.uint8)[: sum(sizes)].split(sizes)
        for part, storage in zip(parts, storages, strict=True):
            part.copy_(storage)
        took = self.call("launch", case, label, sizes, layouts, dict(scalars), order)
        for part, storage in zip(parts, storages, strict=True):
            storage.copy_(part)
        return float(took)


def places(frames: Iterable[tuple[str, int, str]]) -> str:
    """The innermost functions of kernels among `frames` (file, line, function) and their lines; "" where there is
    none."""
    told = [
        f"{function} at `{linecache.getline(file, line).strip()}` [{Path(file).name}:{line}]"
        for file, line, function in frames
        if not file.startswith(NOT_KERNELS) and not PACKAGES & set(Path(file).parts)
    ]
    return ": " + ", called by ".join(told[:INNERMOST]) if told else ""
