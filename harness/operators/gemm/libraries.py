"""Libraries beside torch that multiply matrices. Standard library only."""

from __future__ import annotations

from harness.operators.protocol import Library

ANCHOR = "cublas"
"""The peer that every interleaved group contains: cuBLAS as torch.mm calls it."""
PEERS = (ANCHOR, "cublaslt", "inductor")
"""cuBLAS by torch.mm, the best of cuBLASLt's heuristics by nvmath-python, Inductor's Triton templates."""


LIBRARIES = {
    "cublaslt": Library(
        "nvmath-python", "nvmath.linalg.advanced", "nvmath-python", "pip install nvmath-python", "nvmath-python"
    )
}
"""Peer -> its library."""
