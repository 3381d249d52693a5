"""Compiling ahead of loading: many kernels at once, so that a run does not wait for one compiler after another."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from multiprocessing.connection import Connection, wait
from typing import Any

from harness import techniques
from harness.variants.case import Case, environment_of
from harness.variants.cuda import build_cuda, constants, gpu_arch
from harness.variants.triton import note_compile_time, triton_specialization

Job = tuple[Callable[..., str], tuple[Any, ...]]
"""A function that can be pickled, and its arguments."""
LATEST_STOP = 0.2
"""Seconds within which a request to stop is seen."""


def prebuild(
    cases: Iterable[Case],
    progress: Callable[[int, int, str], None] | None = None,
    *,
    seconds: float = 300.0,
    stop: Callable[[], bool] = lambda: False,
) -> None:
    """Compiles the kernels of all cases in parallel, as this GPU will load them, in processes that have their
    environment. `progress(done, total, label)` follows each.

    Who takes longer than `seconds` is ended, and all are as soon as `stop()`. A kernel that does not compile is left
    for `load` and the first launch, which say so in its row.
    """
    arch = gpu_arch()
    jobs: dict[tuple[tuple[str, str], ...], dict[Any, Job]] = {}
    for case in cases:
        if case.technique is None or case.tile is None:
            continue
        technique = techniques.get(case.technique)
        if techniques.unsupported(technique, case.backend, case.problem, case.tile):
            continue
        if case.backend == "cuda":
            jobs.setdefault((), {})[technique.path, *sorted(constants(case).items())] = _build_library, (case, arch)
        else:
            environment = tuple(sorted((environment_of(case) or {}).items()))
            program = technique.path, case.problem, case.tile
            jobs.setdefault(environment, {})[program] = _compile_program, (case, arch)
    done, total = 0, sum(map(len, jobs.values()))
    for environment, group in jobs.items():
        for label in in_processes(group.values(), dict(environment), seconds=seconds, stop=stop):
            done += 1
            if progress:
                progress(done, total, label or "(failed)")


def in_processes(
    jobs: Iterable[Job], environment: Mapping[str, str], *, seconds: float, stop: Callable[[], bool]
) -> Iterator[str | None]:
    """What each job returned, as they end, in as many processes as there are cores; None for one that raised, that
    ended its process or took longer than `seconds`. No process outlives this, and no compiler that it started."""
    cores = len(os.sched_getaffinity(0))  # runs on several GPUs of a host share its cores by taskset
    waiting = list(jobs)
    busy: list[_Child] = []
    idle: list[_Child] = []
    try:
        while (waiting or busy) and not stop():
            while waiting and len(busy) < cores:
                busy.append(idle.pop() if idle else _Child(environment))
                busy[-1].begin(waiting.pop(0), seconds)
            ready = wait([child.connection for child in busy], LATEST_STOP)
            for child in [child for child in busy if child.connection in ready or time.monotonic() > child.deadline]:
                busy.remove(child)
                answer = child.answer()
                if not child.connection.closed:
                    idle.append(child)
                yield answer
    finally:
        for child in (*busy, *idle):
            child.end()


class _Child:
    """A process of an environment of its own that does one job after another."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        spawn = multiprocessing.get_context("spawn")
        self.connection, theirs = spawn.Pipe()
        self._process = spawn.Process(target=_serve, args=(theirs, environment), daemon=True)
        self._process.start()
        theirs.close()

    def begin(self, job: Job, seconds: float) -> None:
        with contextlib.suppress(BrokenPipeError):  # it died while idle: its answer says so
            self.connection.send(job)
        self.deadline = time.monotonic() + seconds

    def answer(self) -> str | None:
        """What the job returned; without an answer the process is ended."""
        with contextlib.suppress(EOFError, ConnectionResetError):
            if self.connection.poll():
                answer: str | None = self.connection.recv()
                return answer
        self.end()
        return None

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
    with contextlib.suppress(EOFError):
        while True:
            function, arguments = connection.recv()
            try:
                answer = function(*arguments)
            except Exception:
                answer = None
            connection.send(answer)


def _build_library(case: Case, arch: str) -> str:
    from harness import machine_code

    machine_code.disassemble(build_cuda(case, arch).library)  # the gate wants it: here it is read in parallel
    return str(case)


def _compile_program(case: Case, arch: str) -> str:
    """Leaves the Triton program in Triton's cache, where the launcher finds it."""
    from triton import knobs

    from harness import machine_code

    knobs.compilation.listener = note_compile_time
    machine_code.read_triton(triton_specialization(case, arch).compile())
    return str(case)
