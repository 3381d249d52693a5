"""What `make test` does again of what recorded rows prove: twelve cells, which the commit chooses.

Whatever no row proves is compiled and run in any case; all of it under the marker `full`.
"""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterable
from functools import cache
from typing import TypeVar

from tests.conftest import CHECKOUT

COUNT = 12
T = TypeVar("T")


def by_commit(proven: Iterable[T], count: int = COUNT) -> set[T]:
    """`count` of the cells, or all of fewer; another commit chooses others."""
    return set(sorted(proven, key=_place)[:count])


def _place(cell: object) -> str:
    return hashlib.sha256(f"{commit()} {cell}".encode()).hexdigest()


@cache
def commit() -> str:
    """The hash of HEAD; empty where the checkout is no repository, which always chooses the same."""
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=CHECKOUT, capture_output=True, text=True)
    return done.stdout.strip()
