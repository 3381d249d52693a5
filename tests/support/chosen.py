"""What `make test` does again of what recorded rows prove: a few cells, which the commit chooses.

Whatever no row proves is compiled and run in any case; all of it under the marker `full`.
"""

import hashlib
import multiprocessing
import subprocess
from collections.abc import Callable, Collection, Iterable
from functools import cache
from typing import Any, TypeVar

import pytest

from tests.conftest import CHECKOUT

COUNT = 12
T = TypeVar("T")


def by_commit(proven: Iterable[T], count: int = COUNT) -> set[T]:
    """`count` of the cells, or all of fewer; another commit chooses others."""
    return set(sorted(proven, key=_place)[:count])


def quick(cells: Collection[T], is_proven: Callable[[T], bool], count: int = COUNT) -> set[T]:
    """All cells that no row proves, and `count` of the others."""
    unproven = {cell for cell in cells if not is_proven(cell)}
    return unproven | by_commit(set(cells) - unproven, count)


def params(cells: Collection[Any], is_proven: Callable[[Any], bool], count: int = COUNT) -> list[Any]:
    """The cells as parameters of a test; those that are not quick are for `make test-full`. None in a process that
    imports a test's file for one of its functions: to read what is proven takes seconds."""
    if multiprocessing.parent_process():
        return []
    few, found = quick(cells, is_proven, count), []
    for cell in cells:
        parts = cell if isinstance(cell, tuple) else (cell,)
        name = "-".join(str(getattr(part, "slug", part)) for part in parts)
        found.append(pytest.param(*parts, marks=() if cell in few else pytest.mark.full, id=name))
    return found


def _place(cell: object) -> str:
    return hashlib.sha256(f"{commit()} {cell}".encode()).hexdigest()


@cache
def commit() -> str:
    """The hash of HEAD; empty where the checkout is no repository, which always chooses the same."""
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=CHECKOUT, capture_output=True, text=True)
    return done.stdout.strip()
