"""Workers that cost no import of torch, which takes 2 s: each is forked from a process that has imported what every
worker imports, and no more. In all else they are as harness.measure.worker starts them."""

from __future__ import annotations

import atexit
import fcntl
import functools
import json
import os
import select
import socket
import subprocess
import sys
from types import SimpleNamespace
from typing import IO, Any

from harness.measure import worker
from tests.conftest import CHECKOUT, why_no_gpu

TEMPLATE = """
import runpy, sys
import harness.build, harness.measure.arenas
from tests.support import forked
runpy.run_module(forked.serve(int(sys.argv[1])), run_name="__main__", alter_sys=True)
"""
"""A text, not a file of this folder: no line of it is told as a kernel's."""
MESSAGE = 2**17
"""Bytes: an environment, mostly."""
ABOVE = 1000
"""Descriptors from here on are nobody's."""


@functools.cache
def _template(libraries: str | None) -> socket.socket:
    """The connection to the process that forks. The system looks for its libraries where it was told at its start."""
    ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
    environment = {**os.environ, **worker.WAITING, "PYTHONPATH": str(CHECKOUT)}
    command = [sys.executable, "-P", "-c", TEMPLATE, str(theirs.fileno())]
    with theirs:
        process = subprocess.Popen(command, env=environment, pass_fds=[theirs.fileno()], start_new_session=True)
    atexit.register(process.wait)
    atexit.register(ours.shutdown, socket.SHUT_RDWR)
    return ours


class Forked:
    """What a worker needs of subprocess.Popen."""

    template = staticmethod(_template)

    def __init__(
        self, command: list[str], *, env: dict[str, str], stdout: IO[bytes], pass_fds: list[int], **_: Any
    ) -> None:
        self._asks = self.template(env.get("LD_LIBRARY_PATH"))
        given = {1: stdout.fileno(), 2: stdout.fileno(), **{number: number for number in pass_fds}}
        arguments = command[command.index("-m") + 1 :]
        message = json.dumps([arguments, env, os.getcwd(), list(given)]).encode()
        socket.send_fds(self._asks, [message], list(given.values()))
        self.pid = int(self._asks.recv(MESSAGE))
        self._end, self._code = os.pidfd_open(self.pid), None

    def poll(self) -> int | None:
        return self.wait() if self._code is not None or select.select([self._end], [], [], 0)[0] else None

    def wait(self) -> int:
        if self._code is None:
            select.select([self._end], [], [])
            os.close(self._end)
            self._asks.send(json.dumps(self.pid).encode())
            self._code = int(self._asks.recv(MESSAGE))
        return self._code

    def send_signal(self, number: int) -> None:
        if self._code is None:
            os.kill(self.pid, number)


def start(command: list[str], **options: Any) -> Forked | subprocess.Popen:
    """On a GPU a worker starts as ever."""
    return (Forked if why_no_gpu() else subprocess.Popen)(command, **options)


SUBPROCESS: Any = SimpleNamespace(Popen=start, DEVNULL=subprocess.DEVNULL)
"""In place of harness.measure.worker's."""


def serve(descriptor: int) -> str:
    """Forks as it is asked, and says the exit code of what has ended, until whoever asks hangs up. A fork returns the
    module that it is to run."""
    asks = socket.socket(fileno=descriptor)
    while True:
        message, given, *_ = socket.recv_fds(asks, MESSAGE, 16)
        if not message:
            os._exit(0)
        asked = json.loads(message)
        if isinstance(asked, int):
            answer = os.waitstatus_to_exitcode(os.waitpid(asked, 0)[1])
        elif not (answer := os.fork()):
            break
        for one in given:
            os.close(one)
        asks.send(str(answer).encode())
    asks.close()
    os.setsid()
    sys.argv, environment, folder, numbers = asked
    if sys.argv[0] == worker.SERVICE:  # its own processes are forked, too, from one that is as this one is now
        ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        if not os.fork():
            ours.close()
            for one in given:
                os.close(one)
            return serve(theirs.detach())
        theirs.close()
        Forked.template = staticmethod(lambda libraries: ours)
        worker.subprocess = SUBPROCESS
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:0] = environment["PYTHONPATH"].split(os.pathsep)
    for one, number in zip([fcntl.fcntl(one, fcntl.F_DUPFD, ABOVE) for one in given], numbers, strict=True):
        os.dup2(one, number)
        os.close(one)
    for one in given:
        if one not in numbers:
            os.close(one)
    return str(sys.argv[0])
