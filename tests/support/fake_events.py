"""A CUDA driver on the CPU, as far as the timing loop of users' kernels asks for one: a GPU alone has another."""

import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from harness.measure import verifier

CACHE = 2**17
"""Bytes of its L2 cache."""


def take_the_place_of_a_gpu(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """Processes that start from now on find the driver, built in `folder`. It hides nothing that they do between two
    calls, and needs no rest."""
    source = Path(__file__).with_suffix(".c")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(folder / "libcuda.so.1"), str(source)], check=True)
    patch.setenv("LD_LIBRARY_PATH", str(folder))
    patch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(L2_cache_size=CACHE))
    patch.setattr(verifier, "CLOCK_GAP", 2.0)
    patch.setattr(verifier.Stopwatch, "sleep", lambda self, seconds: None)
