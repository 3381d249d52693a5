"""Where to read more: what pages quote or compare with, and the PTX instructions that techniques use."""

from __future__ import annotations

from harness.operators.attention.titles import INSTRUCTIONS

PTX_ISA = "https://docs.nvidia.com/cuda/parallel-thread-execution/#"

READING = {
    "FlashAttention, the papers": {
        "FlashAttention (2022)": "https://arxiv.org/abs/2205.14135",
        "FlashAttention-2 (2023)": "https://arxiv.org/abs/2307.08691",
        "FlashAttention-3 (2024)": "https://arxiv.org/abs/2407.08608",
    },
    "Libraries that are timed here": {
        "flash-attention 2, 3 and 4": "https://github.com/Dao-AILab/flash-attention",
        "cuDNN": "https://docs.nvidia.com/deeplearning/cudnn/",
        "FlexAttention": "https://pytorch.org/blog/flexattention/",
    },
    "Languages": {
        "Triton and Gluon": "https://github.com/triton-lang/triton",
        "TLX": "https://github.com/facebookexperimental/triton",
        "CUTLASS and CuTe DSL": "https://github.com/NVIDIA/cutlass",
        "cuTile": "https://github.com/NVIDIA/cutile-python",
    },
    "Where the question was asked": {
        "CUTLASS issue 1207": "https://github.com/NVIDIA/cutlass/issues/1207",
        "Triton for Intel GPUs, issue 1103": "https://github.com/intel/intel-xpu-backend-for-triton/issues/1103",
    },
}
"""Group -> title -> address."""

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


def ptx(technique: str) -> dict[str, str]:
    """Instruction -> address, of those that a technique is about."""
    return {name: PTX_ISA + SECTIONS[name] for name in INSTRUCTIONS.get(technique, ())}
