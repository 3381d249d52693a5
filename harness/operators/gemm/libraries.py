"""Libraries beside torch that multiply matrices. Standard library only."""

from harness.operators.protocol import Library

ANCHOR = "cublas"
"""The peer that every interleaved group contains: cuBLAS as torch.mm calls it."""
CUBLAS = (ANCHOR, "cublaslt")
"""cuBLAS by torch.mm, and the best of cuBLASLt's heuristics by nvmath-python."""
PEERS = (*CUBLAS, "inductor", "deep_gemm", "quack")
"""These; Inductor's Triton templates; DeepGEMM; quack, in CuTe DSL. The last three compile themselves."""
TORCH_GROUPED = "torch_grouped"
"""torch._grouped_mm, which takes groups."""
GROUPED_RIVALS = (ANCHOR, TORCH_GROUPED)
"""Of groups: torch.mm for each, and all by one call."""
GROUPED = (*GROUPED_RIVALS, "deep_gemm")


LIBRARIES = {
    "cublaslt": Library(
        "nvmath-python", "nvmath.linalg.advanced", "nvmath-python", "pip install nvmath-python", "nvmath-python"
    ),
    "deep_gemm": Library(
        "DeepGEMM",
        "deep_gemm",
        "sgl-deep-gemm",
        "pip install sgl-deep-gemm, of the version that is built for this torch (0.2.1 for 2.11)",
        "sgl-deep-gemm",
    ),
    "quack": Library("quack", "quack.gemm_interface", "quack-kernels", "pip install quack-kernels", "quack-kernels"),
}
