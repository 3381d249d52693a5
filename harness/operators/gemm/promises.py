"""The ratios of matrix products that the scorecard follows. Standard library only."""

from __future__ import annotations

from harness.catalog.promises import FASTEST, Promise
from harness.operators.gemm.libraries import ANCHOR

RIVALS = (ANCHOR, "cublaslt")
"""cuBLAS by its first heuristic and by the best of them."""


def promises() -> tuple[Promise, ...]:
    """In the order of the scorecard. An entry begins with its first row."""
    return (
        Promise("gemm_over_cublas", "cuda", FASTEST, "grid", rivals=RIVALS),
        Promise("gemm_over_cublas_sustained", "cuda", FASTEST, "sustained", mode="sustained", rivals=RIVALS),
        Promise("gemm_triton_over_cublas", "triton", ANCHOR, "grid"),
        Promise("gemm_gluon_over_cublas", "gluon", ANCHOR, "grid"),
    )
