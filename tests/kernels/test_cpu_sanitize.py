"""Kernels and the runtime under the address and undefined-behaviour sanitizers, each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from cuda_kernels import cpu_build
from harness.catalog.techniques import TECHNIQUES
from tests.conftest import CHECKOUT

PROGRAM = """
from tests.support.cpu_run import run
from harness.operators.attention.problem import Problem

result = run("{name}", Problem(1, 2, 1, 128, 256, 64, "fp16", {causal}), seed=1, counters=True, sanitize=True)
assert result.code == 0, result.diagnosis
assert result.library.counters()
print("clean")
"""
FULL_ONLY = {"cluster_multicast"}
QUICK = "warp_specialized"
"""Fibers, TMA, mbarriers, ldmatrix, mma: most of the runtime. The others are under the marker `full`."""


@pytest.mark.timeout(900)  # a minute of one processor, most of it the runtime's own build
@pytest.mark.parametrize(
    "name", [pytest.param(one.name, marks=() if one.name == QUICK else pytest.mark.full) for one in TECHNIQUES]
)
def test_the_sanitizers_find_nothing(name: str) -> None:
    environment = {
        **os.environ,
        **cpu_build.sanitizer_environment(),
        "PYTHONPATH": str(CHECKOUT),
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(name=name, causal=name not in FULL_ONLY)],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("clean\n")
