"""Jobs in processes with an environment of their own from their start. Compilers need that: Triton reads its variables
once. A job that raises, ends its process or takes too long costs nothing but its own answer."""

import contextlib
import ctypes
import math
import multiprocessing
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Literal

Job = tuple[Callable[..., Any], tuple[Any, ...]]
"""A function that can be pickled, and its arguments."""
LATEST_STOP = 0.2
"""Seconds within which a request to stop is seen."""


def die_with_parent() -> None:
    """Lets the kernel of the system kill this process when the one that started it is gone, however it went."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


@dataclass(frozen=True)
class NoAnswer:
    """In place of what a job would have returned: it raised, its process crashed, or it took too long. `reason` has the
    words."""

    how: Literal["raised", "crashed", "timeout"]
    reason: str


def answers(
    jobs: Iterable[Job],
    environment: Mapping[str, str],
    *,
    seconds: float = math.inf,
    stop: Callable[[], bool] = lambda: False,
) -> Iterator[tuple[Job, Any]]:
    """Each job with what it returned, as they end, in as many processes as there are cores; with NoAnswer when it
    raised, ended its process or took longer than `seconds`. No process outlives this, and no compiler that it
    started; all end as soon as `stop()`."""
    cores = len(os.sched_getaffinity(0))  # runs on several GPUs of a host share its cores by taskset
    waiting = list(jobs)
    busy: list[Child] = []
    idle: list[Child] = []
    try:
        while (waiting or busy) and not stop():
            while waiting and len(busy) < cores:
                busy.append(idle.pop() if idle else Child(environment))
                busy[-1].begin(waiting.pop(0), seconds)
            ready = wait([child.connection for child in busy], LATEST_STOP)
            for child in [child for child in busy if child.connection in ready or time.monotonic() > child.deadline]:
                busy.remove(child)
                answer = child.answer()
                if not child.connection.closed:
                    idle.append(child)
                yield child.job, answer
    finally:
        for child in (*busy, *idle):
            child.end()


def run(command: Sequence[str], folder: Path, environment: Mapping[str, str], log: Path, seconds: float) -> int | None:
    """Runs a command in `folder`, its output in `log`: the exit code, or None when it was not done within `seconds` and
    was killed with all that it had started."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=output, stderr=output, start_new_session=True
        )
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def ending(code: int | None) -> str:
    """SIGSEGV for an exit code of -11, as subprocess and multiprocessing have it."""
    return signal.Signals(-code).name if code and code < 0 else f"exit code {code}"


class Child:
    """A process of an environment of its own that does one job after another."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        spawn = multiprocessing.get_context("spawn")
        self.connection, theirs = spawn.Pipe()
        self._process = spawn.Process(target=_serve, args=(theirs, environment), daemon=True)
        self._process.start()
        theirs.close()

    def begin(self, job: Job, seconds: float) -> None:
        """Gives the process a job, which has so many seconds."""
        with contextlib.suppress(BrokenPipeError):  # it died while idle: its answer says so
            self.connection.send(job)
        self.job, self._seconds = job, seconds
        self.deadline = time.monotonic() + seconds

    def answer(self) -> Any:
        """What the job returned, or NoAnswer; unless the job raised, the process is then gone."""
        try:
            if self.connection.poll():
                return self.connection.recv()
            nothing = NoAnswer("timeout", f"no answer within {self._seconds:g} s")
        except (EOFError, ConnectionResetError):
            self._process.join(5)
            nothing = NoAnswer("crashed", f"the process ended: {ending(self._process.exitcode)}")
        self.end()
        return nothing

    def end(self) -> None:
        """Asks the whole group first: ninja has its compilers in groups of their own and ends them when asked."""
        assert self._process.pid is not None
        self._process.terminate()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGTERM)
        self._process.join(5)
        self._process.kill()
        self.connection.close()


def _serve(connection: Connection, environment: Mapping[str, str]) -> None:
    os.setsid()  # Ctrl-C in the terminal is the parent's to handle
    os.environ.update(environment)
    with contextlib.suppress(EOFError, BrokenPipeError):  # the parent is gone, before a job or during one
        while True:
            function, arguments = connection.recv()
            try:
                answer = function(*arguments)
            except Exception as error:
                answer = NoAnswer("raised", f"{type(error).__name__}: {error}")
            connection.send(answer)
