"""Other processes that keep this GPU busy while kernels are checked: matrix products without end, in a process each."""

import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from harness.machine import processes

SIZE = 8192
"""Rows of the square matrices: a product takes milliseconds and the whole GPU."""


@contextmanager
def busy_processes(count: int) -> Iterator[int]:
    """Keeps `count` processes at work on the GPU while the block runs. Raises RuntimeError if one does not begin."""
    with ExitStack() as stack:
        children = [processes.Child({}) for _ in range(count)]
        for child in children:
            stack.callback(child.end)
            child.begin((multiply, (1,)), math.inf)
        for child in children:
            child.connection.poll(None)
            if isinstance(answer := child.answer(), processes.NoAnswer):
                words = f"a process that shares the GPU: {answer.reason}; `twinkernels doctor` says what is missing"
                raise RuntimeError(words)
            child.begin((multiply, (math.inf,)), math.inf)
        yield count


def multiply(batches: float) -> None:
    """Multiplies bf16 matrices (SIZE, SIZE), 20 times a batch: the GPU never waits for the host."""
    import torch

    processes.die_with_parent()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    a, b = (torch.randn(SIZE, SIZE, device=device, dtype=torch.bfloat16) for _ in "ab")
    out = torch.empty_like(a)
    while batches > 0:
        for _ in range(20):
            torch.mm(a, b, out=out)
        if device == "cuda":
            torch.cuda.synchronize()
        batches -= 1
