"""Other GPUs of this host at work, or this one for others too: matrix products without end, in a process each.

`python -m harness.measure.neighbours` is such a process: it says so when it has begun, and works until it is ended.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from harness.catalog.sources import ROOT
from harness.machine.processes import die_with_parent

BEGUN = "at work"
SIZE = 8192
"""Rows of the square matrices: a product takes milliseconds, and all of a GPU."""


@contextmanager
def at_work(boards: Sequence[Mapping[str, str]]) -> Iterator[int]:
    """How many of these GPUs work meanwhile: all, once the block begins. `boards`: for each the variables with which a
    process sees it alone; none for the GPU of this process. Raises RuntimeError for one that does not begin."""
    with ExitStack() as stack:
        processes = [
            subprocess.Popen(
                [sys.executable, "-m", "harness.measure.neighbours"],
                cwd=ROOT,
                env={**os.environ, **board},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            for board in boards
        ]
        for process in processes:
            stack.callback(process.wait)
            stack.callback(process.kill)
        for process, board in zip(processes, boards, strict=True):
            assert process.stdout is not None
            if (said := process.stdout.readline().strip()) != BEGUN:
                raise RuntimeError(
                    f"neighbour on {dict(board)}: got {said!r}, expected {BEGUN!r}; `twinkernels doctor` says what is "
                    "missing"
                )
        yield len(processes)


def work() -> None:
    """Multiplies bf16 matrices (SIZE, SIZE) until the process is ended."""
    import torch

    die_with_parent()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    a, b = (torch.randn(SIZE, SIZE, device=device, dtype=torch.bfloat16) for _ in "ab")
    out = torch.empty_like(a)
    print(BEGUN, flush=True)
    while True:
        for _ in range(20):  # enough that the GPU never waits for the host
            torch.mm(a, b, out=out)
        if device == "cuda":
            torch.cuda.synchronize()


if __name__ == "__main__":
    work()
