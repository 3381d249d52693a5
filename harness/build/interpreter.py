"""Python code of kernels under watch, above all in Triton's interpreter: what goes on for ever is ended, and its loop
is named."""

from __future__ import annotations

import ast
import linecache
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from harness.catalog import sources
from harness.operators.errors import Diagnosed
from harness.operators.protocol import Problem

PATIENCE = 2.0
"""Seconds of processor time after which the steps of a launch are counted: that makes it up to three times slower."""
FLOPS = 4e7
"""FLOP per second of a slow kernel in Triton's interpreter, which uses one core."""
MUCH_SLOWER, AT_LEAST = 10.0, 10.0
"""A kernel there of which nothing is known but its problem may be so many times slower than that, and take so many
seconds of processor time in any case."""
LAUNCH_TIMEOUT = 702
"""What CUDA returns of a launch that took too long."""


class _Endless(BaseException):
    """Not an Exception: those the interpreter wraps in its own."""


def seconds_of_any(problem: Problem) -> float:
    """Seconds of processor time that a Triton kernel of which nothing is known may take, whatever its steps."""
    return AT_LEAST + MUCH_SLOWER * problem.flops / FLOPS


@contextmanager
def watched(
    kernels: Path | Sequence[Path], most: int, patience: float = PATIENCE, seconds: float = 0.0
) -> Iterator[None]:
    """Ends a launch in which a line of `kernels`, a folder or files, runs more than `most` times in one call of its
    function, once the launch has taken `seconds` of processor time. In functions that are under way when counting
    begins, instructions count too: of a loop in one line Python tells no lines.

    Raises Diagnosed, which names the loops around that line, and ValueError outside the main thread, where no timer can
    be set.
    """
    files = str(kernels) if isinstance(kernels, Path) else tuple(map(str, kernels))
    begin = time.process_time()

    def counting() -> Callable[..., Any]:
        times: Counter[tuple[str, int]] = Counter()

        def on_line(frame: FrameType, event: str, argument: Any) -> Callable[..., Any]:
            step = event, frame.f_lineno if event == "line" else frame.f_lasti
            times[step] += event in ("line", "opcode")
            if times[step] > most and time.process_time() - begin >= seconds:
                raise _Endless(frame.f_code.co_filename, frame.f_lineno)
            return on_line

        return on_line

    def on_call(frame: FrameType, event: str, argument: Any) -> Callable[..., Any] | None:
        return counting() if frame.f_code.co_filename.startswith(files) else None

    def count_from_now(number: int, frame: FrameType | None) -> None:
        sys.settrace(on_call)
        while frame:
            frame.f_trace = on_call(frame, "call", None)
            frame.f_trace_opcodes = frame.f_trace is not None
            frame = frame.f_back

    traced, handled = sys.gettrace(), signal.signal(signal.SIGVTALRM, count_from_now)
    signal.setitimer(signal.ITIMER_VIRTUAL, patience)
    try:
        yield
    except _Endless as endless:
        file, line = endless.args
        loops = ", in ".join(
            f"{linecache.getline(file, each).strip()} [{Path(file).name}:{each}]" for each in _loops(file, line)
        )
        took = f"over {most} steps" + (f" in {seconds:.0f} s" if seconds else "")
        raise Diagnosed([f"endless_loop: goes on for ever, {took}: {loops}"], LAUNCH_TIMEOUT) from None
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, handled)
        sys.settrace(traced)


def _loops(file: str, line: int) -> list[int]:
    """The lines at which the loops around a line begin, the innermost first."""
    loops = (node for node in ast.walk(sources.parse(Path(file))) if isinstance(node, (ast.For, ast.While)))
    return sorted((loop.lineno for loop in loops if loop.lineno <= line <= (loop.end_lineno or 0)), reverse=True)
