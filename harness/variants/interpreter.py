"""Triton's interpreter under watch: a kernel that goes on for ever is ended, and its loop is named."""

from __future__ import annotations

import ast
import linecache
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from harness.catalog import sources
from harness.catalog.problem import Problem, Tile
from harness.variants.errors import Diagnosed

PATIENCE = 2.0
"""Seconds of processor time after which the steps of a launch are counted: that makes it up to three times slower."""
LAUNCH_TIMEOUT = 702
"""What CUDA returns of a launch that took too long."""


class _Endless(BaseException):
    """Not an Exception: those the interpreter wraps in its own."""


def most_steps(problem: Problem, tile: Tile) -> int:
    """More steps than a loop of a right kernel takes in one call of its function: one for each tile of queries, and one
    for each 16 columns of each tile of keys."""
    query_tiles = problem.batch * problem.heads * -(-problem.seq_q // tile.block_m)
    key_tiles = -(-problem.seq_kv // tile.block_n)
    return query_tiles + (key_tiles + 2) * (problem.head_dim // 16 + 1)


@contextmanager
def watched(kernels: Path, most: int, patience: float = PATIENCE) -> Iterator[None]:
    """Ends a launch in which a line of the folder `kernels` runs more than `most` times in one call of its function.

    Raises Diagnosed, which names the loops around that line, and ValueError outside the main thread, where no timer can
    be set.
    """

    def counting() -> Callable[..., Any]:
        times: Counter[int] = Counter()

        def on_line(frame: FrameType, event: str, argument: Any) -> Callable[..., Any]:
            times[frame.f_lineno] += event == "line"
            if times[frame.f_lineno] > most:
                raise _Endless(frame.f_code.co_filename, frame.f_lineno)
            return on_line

        return on_line

    def on_call(frame: FrameType, event: str, argument: Any) -> Callable[..., Any] | None:
        return counting() if frame.f_code.co_filename.startswith(str(kernels)) else None

    def count_from_now(number: int, frame: FrameType | None) -> None:
        sys.settrace(on_call)
        while frame:
            frame.f_trace = on_call(frame, "call", None)
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
        raise Diagnosed([f"endless_loop: goes on for ever, over {most} steps: {loops}"], LAUNCH_TIMEOUT) from None
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, handled)
        sys.settrace(traced)


def _loops(file: str, line: int) -> list[int]:
    """The lines at which the loops around a line begin, the innermost first."""
    loops = (node for node in ast.walk(sources.parse(Path(file))) if isinstance(node, (ast.For, ast.While)))
    return sorted((loop.lineno for loop in loops if loop.lineno <= line <= (loop.end_lineno or 0)), reverse=True)
