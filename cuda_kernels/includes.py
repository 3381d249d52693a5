"""What a C++ or CUDA file includes, directly or not. Standard library only."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[<\"]([^>\"]+)[>\"]", re.MULTILINE)


def without_comments(text: str) -> str:
    return _COMMENT.sub("", text)


@cache
def names(text: str) -> tuple[str, ...]:
    """What a file of this text includes, as it is written there. Kept: a header stands in most kernels."""
    return tuple(_INCLUDE.findall(without_comments(text)))


def closure(files: Iterable[Path], folders: Sequence[Path]) -> list[Path]:
    """The files, then every further file that they include, directly or not, each from the first of the folders that
    has it. What is in none of them, such as a system's header, is left out."""
    found = list(files)
    for path in found:
        for name in names(path.read_text()):
            place = next((folder / name for folder in folders if (folder / name).is_file()), None)
            if place and place not in found:
                found.append(place)
    return found
