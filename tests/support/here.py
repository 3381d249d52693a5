"""A worker without a process: what the runner asks for is done at once, here. For tests of the runner's decisions; a
process takes seconds to start."""

import itertools
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.measure import gate, process, service, session, timing
from harness.measure.worker import Failed, Worker
from tests.support import fake_kernels


class Here(Worker):
    """Takes what Worker takes. A kernel that raises is told as from a process; one that dies takes this one with it."""

    def __init__(self, environment: Any, loader: str, on: str, log: Path, deadlines: Any, told: Any, **_: Any) -> None:
        self._log, self._begin, self._label = log, None, None
        log.touch()
        connection: Any = SimpleNamespace(send=self._take, send_bytes=self._hear, closed=False)
        self._connection = connection
        self._service = service.Service(connection, loader, on, deadlines, log)
        self._service.start()

    def _take(self, message: tuple[str, str, tuple[Any, ...]]) -> None:
        _, self._method, self._arguments = message

    def _hear(self, message: bytes) -> None:
        kind, *content = json.loads(message)
        if kind == "now":
            self._label = content[1]

    def _receive(self, log_start: int, token: str | None = None) -> Any:
        try:
            return getattr(self._service, self._method)(*self._arguments)
        except Failed:  # of the process of a user's kernel
            raise
        except Exception as error:
            stage = self._service.stage
            status, reason, more = process.told(error, stage)
            fields = {"status": status, "reason": reason, **{n: more.pop(n) for n in ("check",) if n in more}}
            fields["details"] = {"stage": stage, **more}
            raise Failed(fields, self._label, stage) from error

    def kill(self) -> None:
        self._service.end_isolation()
        self._connection.closed = True


def work_here(patch: pytest.MonkeyPatch) -> None:
    """A run works in this process, by a clock that only the sleeps of fake kernels move, each a little further than the
    one before: no test waits, and a busy machine changes no time."""
    passed, more = [0.0], itertools.count(1)

    def sleep(seconds: float) -> None:
        passed[0] += seconds * (1 + 1e-6 * next(more))

    patch.setattr(session, "Worker", Here)
    clock = SimpleNamespace(perf_counter=lambda: passed[0], monotonic=lambda: passed[0], sleep=sleep)
    for module in (fake_kernels, gate, process, timing):
        patch.setattr(module, "time", clock)
