"""Processes on further cores that do a share of this one's work."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import wait

from harness.machine.processes import Child

TOGETHER = 4
"""Cores at most: each process first reads all that the work is made from."""


@contextmanager
def helped(share: Callable[[], object]) -> Iterator[None]:
    """While the block does its own share, processes on further cores do `share()`, which can be pickled; when it is
    left, they have ended. One that crashes or raises costs nothing but its help."""
    helpers: list[Child] = []
    try:
        for _ in range(min(TOGETHER, len(os.sched_getaffinity(0))) - 1):
            helpers.append(Child({}))
            helpers[-1].begin((share, ()), math.inf)
        yield
        for helper in helpers:
            wait([helper.connection])
    finally:
        for helper in helpers:
            helper.end()
