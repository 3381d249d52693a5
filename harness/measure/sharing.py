"""Other processes that keep this GPU busy while kernels are checked: matrix products without end, in a process each.

`python -m harness.measure.sharing` is such a process: it prints when it has begun and works until it is ended.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from harness.catalog.sources import ROOT
from harness.machine.processes import die_with_parent

BEGUN = "at work"
SIZE = 8192
"""Rows of the square matrices: a product takes milliseconds and the whole GPU."""


@contextmanager
def busy_processes(count: int) -> Iterator[int]:
    """Keeps `count` processes at work on the GPU while the block runs. Raises RuntimeError if one does not begin."""
    with ExitStack() as stack:
        processes = [
            subprocess.Popen(
                [sys.executable, "-m", "harness.measure.sharing"],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            for _ in range(count)
        ]
        for process in processes:
            stack.callback(process.wait)
            stack.callback(process.kill)
        for process in processes:
            assert process.stdout is not None
            if (said := process.stdout.readline().strip()) != BEGUN:
                raise RuntimeError(
                    f"a process that shares the GPU: got {said!r}, expected {BEGUN!r}; `twinkernels doctor` says what "
                    "is missing"
                )
        yield count


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
