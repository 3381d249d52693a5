"""A pretended GPU machine, for the tools that watch a kernel there."""

import pytest

from harness import build
from harness.machine import environment


@pytest.fixture
def gpu_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the harness asks about the machine, answered as on a GPU machine."""
    gpu = {"name": "NVIDIA H200", "capability": [9, 0], "sm_count": 132}
    described = {"gpu": gpu, "peaks": None, "warnings": [], "git": {"sha": None, "dirty": None}}
    monkeypatch.setattr(environment, "describe", lambda: described)
    monkeypatch.setattr(build, "available", lambda backend, on="gpu": None)
    monkeypatch.setattr(build, "prebuild", lambda *_, **__: None)
