"""How far a Gluon kernel is from another one, as text."""

from __future__ import annotations

import difflib

from harness.catalog import sources
from harness.catalog.entries import Technique


def changed_lines(before: Technique, after: Technique) -> int:
    """Lines of code that one has and the other has not, but for indents and for the kernel's name."""
    texts = [
        [
            line.strip()
            for line in sources.code(sources.kernel_file("gluon", one.path)).replace(one.name, "kernel").splitlines()
        ]
        for one in (before, after)
    ]
    return sum(line[0] in "+-" for line in difflib.ndiff(*texts))
