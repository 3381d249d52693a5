"""Workers that cost no import of torch, which takes 2 s: each is forked from a process that has imported what every
worker imports, and no more. In all else they are as harness.measure.worker starts them."""

import atexit
import contextlib
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


class Forked:
    """What a worker needs of subprocess.Popen."""

    @staticmethod
    @functools.cache
    def template(*of_libraries: str | None) -> socket.socket:
        """The connection to the process that forks. The system loads its libraries as it was told at its start: one
        for each value of `of_libraries`."""
        ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        environment = {**os.environ, **worker.WAITING, "PYTHONPATH": str(CHECKOUT)}
        command = [sys.executable, "-P", "-c", TEMPLATE, str(theirs.fileno())]
        with theirs:
            process = subprocess.Popen(command, env=environment, pass_fds=[theirs.fileno()], start_new_session=True)
        atexit.register(process.wait)
        atexit.register(ours.shutdown, socket.SHUT_RDWR)
        return ours

    def __init__(
        self, command: list[str], *, env: dict[str, str], stdout: IO[bytes], pass_fds: list[int], **_: Any
    ) -> None:
        template = self.template(env.get("LD_LIBRARY_PATH"), env.get("LD_PRELOAD"))
        self._told, tells = socket.socketpair(type=socket.SOCK_SEQPACKET)
        given = {1: stdout.fileno(), 2: stdout.fileno(), **{number: number for number in pass_fds}}
        message = json.dumps([command[command.index("-m") + 1 :], env, os.getcwd(), list(given)]).encode()
        with tells:
            socket.send_fds(template, [message], [tells.fileno(), template.fileno(), *given.values()])
        self.pid, self._code = int(self._told.recv(MESSAGE)), None

    def poll(self) -> int | None:
        return self.wait() if self._code is not None or select.select([self._told], [], [], 0)[0] else None

    def wait(self) -> int:
        if self._code is None:
            self._code = int(self._told.recv(MESSAGE))
        return self._code

    def send_signal(self, number: int) -> None:
        if self._code is None:
            os.kill(self.pid, number)


SUBPROCESS: Any = SimpleNamespace(
    Popen=lambda command, **options: (Forked if why_no_gpu() else subprocess.Popen)(command, **options),
    DEVNULL=subprocess.DEVNULL,
)
"""In place of harness.measure.worker's. On a GPU a worker starts as ever."""


def _reap() -> None:
    """Waits for the parents of forks that have ended, so that their time is counted."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def serve(descriptor: int) -> str:
    """Forks as it is asked, until whoever asks hangs up. A fork returns the module that it is to run, and may ask here,
    too. Its parent says its exit code, and ends with whoever asked, and the fork with it."""
    asks = socket.socket(fileno=descriptor)
    while (asked := socket.recv_fds(asks, MESSAGE, 16))[0] and os.fork():
        for one in asked[1]:
            os.close(one)
        _reap()
    if not asked[0]:
        _reap()
        os._exit(0)
    sys.argv, environment, folder, numbers = json.loads(asked[0])
    above = [fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, ABOVE) for one in asked[1]]
    for one in (asks.detach(), *asked[1]):
        os.close(one)
    tells, template = (socket.socket(fileno=one) for one in above[:2])
    for one, number in zip(above[2:], numbers, strict=True):
        os.dup2(one, number)
        os.close(one)
    if child := os.fork():
        if tells not in select.select([os.pidfd_open(child), tells], [], [])[0]:
            tells.send(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())
        os._exit(0)
    os.setsid()
    tells.send(str(os.getpid()).encode())
    tells.close()
    Forked.template = staticmethod(lambda *_: template)
    worker.subprocess = SUBPROCESS
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:0] = environment["PYTHONPATH"].split(os.pathsep)
    return str(sys.argv[0])
