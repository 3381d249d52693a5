"""What is drawn of equal data is drawn once: a page is made again, its figures only where what they show changed."""

from __future__ import annotations

import functools
import hashlib
import re
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import ParamSpec

from harness.catalog import sources

FOLDER = sources.CACHE / "drawn"
ROOMS = ("reports", "harness/catalog", "harness/rows")
"""Whose code decides what a drawing looks like."""
LIBRARIES = ("matplotlib", "numpy", "pandas", "pygments", "seaborn")

Arguments = ParamSpec("Arguments")


def once(draw: Callable[Arguments, str]) -> Callable[Arguments, str]:
    """`draw`, which shows nothing but its arguments, with its answers kept by them, the code and the libraries.

    Raises TypeError for an argument that does not say what it holds: the text of one is what tells it from another.
    """

    @functools.wraps(draw)
    def drawn(*arguments: Arguments.args, **options: Arguments.kwargs) -> str:
        shown = f"{draw.__module__}.{draw.__qualname__} {arguments!r} {options!r}"
        if address := re.search(r"<(?:[^<>]|<\w+>)* at 0x", shown):
            raise TypeError(f"{draw.__qualname__}: got {address[0]}..., expected data that tells what it holds")
        path = FOLDER / hashlib.sha256(f"{_drawn_by()} {shown}".encode()).hexdigest()
        if path.is_file():
            return path.read_text()
        text = draw(*arguments, **options)
        sources.put(path, text.encode())
        return text

    return drawn


@functools.cache
def _drawn_by() -> str:
    """Names the code and the libraries."""
    digest = hashlib.sha256(sys.version.encode())
    for name in LIBRARIES:
        digest.update(f"{name} {metadata.version(name)}\0".encode())
    for path in sorted(path for room in ROOMS for path in (sources.ROOT / room).rglob("*.py")):
        digest.update(f"{Path(path).relative_to(sources.ROOT).as_posix()}\0".encode() + path.read_bytes())
    return digest.hexdigest()
