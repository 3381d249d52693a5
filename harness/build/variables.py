"""Environment variables that a process needs before it loads a case."""

from __future__ import annotations

import os

from harness import operators
from harness.catalog import techniques
from harness.catalog.cases import Case

MMA_SYNC_ONLY = {"DISABLE_MMA_V3": "1"}
"""On Hopper core Triton turns large dots into wgmma; with this set before it is imported, into mma.sync."""


def environment_of(case: Case, on: str = "gpu") -> dict[str, str] | None:
    """Variables that a process needs before it loads this case; None when any process will do."""
    if case.kernel:
        triton = {"TRITON_INTERPRET": "1"} if on == "cpu" else {}
        return triton if case.kernel.function else None
    if on == "cpu":
        return {"TRITON_INTERPRET": "1"} if case.backend.startswith("triton") else None
    if case.technique is None:
        return {} if case.backend in operators.by_triton() else None
    if case.backend.partition("@")[0] == "triton_native":
        return {}
    return dict(MMA_SYNC_ONLY) if techniques.at(case.technique, case.problem).mma != "wgmma" else {}


def require_environment(case: Case, on: str = "gpu") -> None:
    """Raises RuntimeError in a process that was started without the variables of a Triton twin: Triton read them."""
    wanted = environment_of(case, on) or {}
    for name in (*MMA_SYNC_ONLY, "TRITON_INTERPRET"):
        if os.environ.get(name) != wanted.get(name):
            raise RuntimeError(
                f"{name}: got {os.environ.get(name)!r}, expected {wanted.get(name)!r} for {case}; "
                "start the process with variants.environment_of(case)"
            )
