"""How long a CPU takes for what a GPU does in milliseconds: an estimate, before the work begins."""

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from harness.catalog import own
from harness.catalog.cases import Case
from harness.measure.worker import Deadlines

FLOPS = {"cuda": 1e8, "triton": 4e7, "torch": 5e9}
"""FLOP per second of the slowest kernels: thread by thread on one core; in Triton's interpreter, which uses one core;
on tensors on one core, which is about what the exact result takes too."""
LAUNCHES = 10
"""Launches that check a case where a launch is slow: six on the first of three distributions, two on each other."""
TOO_LONG = Deadlines().launch / 2
"""Seconds. On a busy machine a launch that takes longer might end as a timeout."""


def launch_seconds(case: Case) -> float:
    """Seconds of one launch on this CPU, roughly."""
    language = _language(case)
    cores = 1 if language == "triton" else os.cpu_count() or 1
    return case.problem.flops / FLOPS[language] / cores


def _language(case: Case) -> str:
    if case.kernel is None:
        return "cuda" if case.backend == "cuda" else "triton"
    if case.kernel.function is None:
        return "cuda"
    return "triton" if own.uses_triton(case.kernel) else "torch"


def refuse_hours(cases: Sequence[Case]) -> str | None:
    """How long it takes to check them all, where that is minutes. Raises ValueError, with a smaller problem, where one
    launch alone takes that long."""
    slowest = max(cases, key=launch_seconds, default=None)
    if slowest is None:
        return None
    small: Any = slowest.problem.smaller
    if small.dtype == "bf16" and any(_language(case) == "triton" for case in cases):
        small = replace(small, dtype="fp16")  # Triton's interpreter computes no other 16-bit format
    if (launch := launch_seconds(slowest)) > TOO_LONG:
        raise ValueError(
            f"problem: got {slowest.problem.slug}, but one launch of {slowest.name} {slowest.backend} takes this "
            f"CPU about {launch / 60:,.0f} min; expected one such as {small.slug}, or a GPU"
        )
    if (whole := LAUNCHES * sum(map(launch_seconds, cases))) > 120:
        return f"about {whole / 60:,.0f} min on this CPU; {small.slug} is one such in seconds"
    return None
