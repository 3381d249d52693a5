"""Kernels in Triton's languages beside each other: how far apart two sources are, and what two programs have in common
but for names."""

import difflib
import re
from typing import Any

import pytest

from harness.catalog import sources
from harness.catalog.entries import Technique


def changed_lines(before: Technique, after: Technique) -> int:
    """Lines of code that one Gluon kernel has and the other has not, but for indents and for the kernel's name."""
    texts = [
        [
            line.strip()
            for line in sources.code(sources.kernel_file("gluon", one.path)).replace(one.name, "kernel").splitlines()
        ]
        for one in (before, after)
    ]
    return sum(line[0] in "+-" for line in difflib.ndiff(*texts))


class _Reached(Exception):
    """Carries the TTGIR."""


def ttgir(program: Any) -> str:
    """Of a Twin's `specialize`: LLVM's and the assembler's part, which is most of the time, is left out."""
    from triton.backends.nvidia.compiler import CUDABackend

    def stop(backend: Any, module: Any, *rest: Any) -> None:
        raise _Reached(str(module))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CUDABackend, "make_llir", stop)
        try:
            text: str = program.compile().asm["ttgir"]  # from Triton's cache
        except _Reached as reached:
            text = str(reached)
    return text


def normalized(ttgir: str) -> str:
    """The program alone: no source locations, values numbered in order of appearance, every kernel called "kernel"."""
    lines = [re.sub(r"loc\(.*", "", line) for line in ttgir.splitlines() if not line.startswith("#loc")]
    text = re.sub(r"(tt\.func public) @\w+", r"\1 @kernel", "\n".join(line.rstrip() for line in lines))
    numbers: dict[str, str] = {}
    return re.sub(r"%\w+", lambda value: numbers.setdefault(value[0], f"%{len(numbers)}"), text)
