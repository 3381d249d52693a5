"""What a run shows while it goes on, and how Ctrl-C and SIGTERM end it."""

from __future__ import annotations

import signal
import sys
import threading
import time
from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from harness.machine.terminal import Plain

SILENCE = 20.0
"""Seconds after which a line says what goes on, where there are no bars."""


class Progress:
    """Bars on a terminal; elsewhere nothing but lines. All of it on stderr: stdout is for results."""

    def __init__(self) -> None:
        self._console = Plain(stderr=True, highlight=False)
        self._start = self._said = self._done = time.monotonic()
        self._last = self._shown = self._now = ""
        self._ended = threading.Event()
        columns = (
            TextColumn("{task.description:8}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        self._bars = Bars(*columns, console=self._console) if self._console.is_terminal else None
        self._tasks: dict[str, TaskID] = {}
        self._begins: dict[str, float] = {}

    def __enter__(self) -> Progress:
        if self._bars:
            self._bars.start()
        else:
            threading.Thread(target=self._break_silence, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._bars:
            self._bars.stop()

    def _break_silence(self) -> None:
        while not self._ended.wait(SILENCE / 20):
            if time.monotonic() - self._said >= SILENCE:
                after = f"still at work after: {self._last}" if self._last else "at work"
                at = f"still at work: {self._now}" if self._now else after
                self._print(self._last if self._last != self._shown else at)

    def now(self, stage: str, label: str) -> None:
        """What is at work, for the line that breaks a silence; until the next line says that something is done."""
        self._now = f"{label}, stage {stage}"

    def say(self, text: str) -> None:
        """A line, with the seconds since the beginning."""
        self._last, self._now = text, ""
        self._print(text)
        self._done = self._said

    def warn(self, text: str) -> None:
        """A line that tells no progress, so that it is not repeated as such."""
        self._print(f"warning: {text}")

    def _print(self, text: str) -> None:
        self._said, self._shown = time.monotonic(), self._last
        self._console.print(f"{self._said - self._start:7.1f} s  {text}", soft_wrap=True)

    def count(self, name: str, done: int, total: int, label: str) -> None:
        """`step` for many short steps: without bars, a line after SILENCE, with what is left at this pace."""
        if self._bars:
            self.step(name, done, total)
            return
        now = time.monotonic()
        left = (now - self._begins.setdefault(name, self._done)) / done * (total - done)
        about = f"about {left / 60:.0f} min" if left > 90 else f"about {left:.0f} s"
        self._last = f"{name}  {done} of {total}, {about} left: {label}"
        if now - self._said >= SILENCE or done == total:
            self._print(self._last)

    def step(self, name: str, done: int, total: int, label: str | None = None) -> None:
        """`done` of `total` of what is called `name`. Without bars, `label` (what was done last) is a line."""
        if self._bars:
            if name not in self._tasks:
                self._tasks[name] = self._bars.add_task(name, total=total)
            self._bars.update(self._tasks[name], completed=done, total=total)
        elif label:
            self.say(f"{name}  {label}")


class Interrupts:
    """Ctrl-C and SIGTERM: the first asks to stop after the case in progress, the next raises KeyboardInterrupt at once;
    where nobody is `patient`, because a case is not worth the wait, the first does.

    `exit_code` is what a shell expects of a process that ended for this: 130 after Ctrl-C, 143 after SIGTERM.
    """

    SIGNALS = (signal.SIGINT, signal.SIGTERM)

    def __init__(self, patient: bool = True) -> None:
        self.patient = patient
        self.requested = False
        self.exit_code = 0

    def __enter__(self) -> Interrupts:
        main = threading.current_thread() is threading.main_thread()
        self._before = {number: signal.signal(number, self._interrupt) for number in self.SIGNALS if main}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def leave(self, rows: Path, further: str = "") -> None:
        """Ends the process if it was asked to, and says where its rows are."""
        if self.requested:
            print(f"the rows so far are in {rows}{further}", file=sys.stderr)
            raise SystemExit(self.exit_code)

    def _interrupt(self, number: int, _: object) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested, self.exit_code = True, 128 + number
        if not self.patient:
            raise KeyboardInterrupt
        print("\nfinishing the case in progress; once more stops at once", file=sys.stderr)
