"""GPU tests skip with the reason, caches stay inside the checkout, and the summary says where the time went."""

from __future__ import annotations

import os
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parent.parent
# Before anything imports triton or torch, here and in every process that a test starts.
os.environ.setdefault("TRITON_CACHE_DIR", str(CHECKOUT / "build" / "triton"))
os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(CHECKOUT / "build" / "inductor"))

_seconds: Counter[str] = Counter()


@cache
def why_no_gpu() -> str | None:
    """The reason why GPU tests cannot run here, or None."""
    import torch

    if torch.version.cuda is None:
        return f"torch {torch.__version__} is a CPU build"
    if not torch.cuda.is_available():
        return "no NVIDIA GPU, or its driver is too old for this torch"
    return None


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu") and (reason := why_no_gpu()):
        pytest.skip(f"needs a GPU: {reason}")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _seconds[report.nodeid.partition("::")[0]] += report.duration


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    slow = [(name, seconds) for name, seconds in _seconds.most_common() if seconds >= 1]
    if slow:
        terminalreporter.section("where the time went")
    for name, seconds in slow:
        terminalreporter.line(f"{seconds:7.1f} s  {name}")
