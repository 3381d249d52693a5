"""What is measured, what a process needs before it loads it, and the ways in which loading or launching it can fail."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace

from harness import sources, techniques
from harness.problem import Problem, Tile

MMA_SYNC_ONLY = {"DISABLE_MMA_V3": "1"}
"""On Hopper core Triton turns large dots into wgmma; with this set before it is imported, into mma.sync."""


class Unsupported(Exception):
    """A backend declines a cell; the message is the reason."""


class LaunchError(RuntimeError):
    """A launcher returned a CUDA error."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class Diagnosed(LaunchError):
    """The CPU runtime found a bug; `lines` name it, with the kernel's line, thread, barrier: `deadlock: nobody ...`."""

    def __init__(self, lines: list[str], code: int) -> None:
        super().__init__("\n".join(lines), code)
        self.lines = lines


class CompileError(RuntimeError):
    """A kernel does not compile; the message names the technique and holds the compiler's words."""


@dataclass(frozen=True)
class Case:
    """What one measurement is of. `technique` and `tile` are None for library peers."""

    experiment: str
    technique: str | None
    backend: str
    problem: Problem
    tile: Tile | None

    def __str__(self) -> str:
        parts = (self.technique, self.backend, self.problem.slug, self.tile and self.tile.slug)
        return " ".join(part for part in parts if part)


def environment_of(case: Case, on: str = "gpu") -> dict[str, str] | None:
    """Variables that a process needs before it loads this case; None when any process will do."""
    if on == "cpu":
        return {"TRITON_INTERPRET": "1"} if case.backend.startswith("triton") else None
    if case.technique is None:
        return {} if case.backend == "flex" else None
    if case.backend == "triton_native":
        return {}
    return dict(MMA_SYNC_ONLY) if techniques.get(case.technique).mma != "wgmma" else {}


def require_environment(case: Case, on: str = "gpu") -> None:
    """Raises RuntimeError in a process that was started without the variables of a Triton twin: Triton read them."""
    wanted = environment_of(case, on) or {}
    for name in (*MMA_SYNC_ONLY, "TRITON_INTERPRET"):
        if os.environ.get(name) != wanted.get(name):
            raise RuntimeError(
                f"{name}: got {os.environ.get(name)!r}, expected {wanted.get(name)!r} for {case}; "
                "start the process with variants.environment_of(case)"
            )


def source_sha256(case: Case) -> str | None:
    """Hash of the kernel's files; None for peers."""
    return case.technique and sources.source_sha256(case.backend, techniques.get(case.technique).path)


def same_program(case: Case) -> str | None:
    """The technique whose program this twin is again, or None."""
    return case.technique and sources.same_program(techniques.get(case.technique).path, case.backend)


SameProgram = Callable[[Case], str | None]
"""What same_program is, for those who take another loader's."""


def origin(case: Case, same_program: SameProgram = same_program) -> str:
    """The technique whose program this case runs in the end: often its own."""
    assert case.technique is not None
    while (name := same_program(case)) is not None:
        case = replace(case, technique=name)
    assert case.technique is not None
    return case.technique
