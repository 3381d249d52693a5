"""The ratios of matrix products that the scorecard follows. Standard library only."""

from __future__ import annotations

from functools import partial

from harness.catalog.promises import FASTEST, Promise
from harness.operators.gemm.libraries import ANCHOR, CUBLAS

FLAGSHIP = "flagship"

_over_cublas = partial(Promise, theirs=FASTEST, rivals=CUBLAS)


def promises() -> tuple[Promise, ...]:
    """In the order of the scorecard. An entry begins with its first row."""
    sustained = partial(_over_cublas, experiment="sustained", mode="sustained")
    return (
        _over_cublas("gemm_over_cublas", "cuda", experiment="grid", technique=FLAGSHIP),
        Promise("gemm_over_torch_mm", "cuda", ANCHOR, "grid", technique=FLAGSHIP),
        _over_cublas("gemm_triton_over_cublas", "triton", experiment="grid"),
        _over_cublas("gemm_gluon_over_cublas", "gluon", experiment="grid"),
        sustained("gemm_over_cublas_sustained", "cuda", technique=FLAGSHIP),
        sustained("gemm_triton_over_cublas_sustained", "triton"),
        sustained("gemm_gluon_over_cublas_sustained", "gluon"),
    )
