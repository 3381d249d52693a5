"""Where to read more: the sections of the PTX ISA that techniques use."""

from __future__ import annotations

from harness import operators
from harness.catalog.entries import Technique

PTX_ISA = "https://docs.nvidia.com/cuda/parallel-thread-execution/#"
SECTIONS = {
    "mma": "warp-level-matrix-instructions-mma",
    "ldmatrix": "warp-level-matrix-instructions-ldmatrix",
    "stmatrix": "warp-level-matrix-instructions-stmatrix",
    "wgmma": "asynchronous-warpgroup-level-matrix-instructions",
    "cp.async": "data-movement-and-conversion-instructions-cp-async",
    "cp.async.bulk.tensor": "data-movement-and-conversion-instructions-cp-async-bulk-tensor",
    "mbarrier": "parallel-synchronization-and-communication-instructions-mbarrier",
    "bar": "parallel-synchronization-and-communication-instructions-bar",
    "setmaxnreg": "miscellaneous-instructions-setmaxnreg",
}
"""Instruction -> its section of the PTX ISA."""


def ptx(technique: Technique) -> dict[str, str]:
    """Instruction -> address, of those that a technique is about."""
    names = operators.get(technique.operator).instructions.get(technique.name, ())
    return {name: PTX_ISA + SECTIONS[name] for name in names}
