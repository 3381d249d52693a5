"""Libraries beside torch that multiply matrices. Standard library only."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass

ANCHOR = "cublas"
"""The peer that every interleaved group contains: cuBLAS as torch.mm calls it."""
PEERS = (ANCHOR, "cublaslt", "inductor")
"""cuBLAS by torch.mm, the best of cuBLASLt's heuristics by nvmath-python, Inductor's Triton templates."""


@dataclass(frozen=True)
class Library:
    """As harness.operators.protocol says it."""

    name: str
    module: str
    distribution: str
    install: str
    software: str

    def fault(self) -> str | None:
        """Why a peer cannot use it and what to do about it; None when it can."""
        found = importlib.util.find_spec(self.module.partition(".")[0])
        return None if found else f"{self.name} is not installed: {self.install}"


LIBRARIES = {
    "cublaslt": Library(
        "nvmath-python", "nvmath.linalg.advanced", "nvmath-python", "pip install nvmath-python", "nvmath-python"
    )
}
"""Peer -> its library."""
