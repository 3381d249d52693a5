"""The ratios of matrix products that the scorecard follows. Standard library only."""

from __future__ import annotations

from functools import partial

from harness.catalog.promises import FASTEST, Promise
from harness.operators.gemm.ladders import hopper
from harness.operators.gemm.libraries import ANCHOR, CUBLAS

FLAGSHIP = "flagship"
HAS_FLAGSHIP = FLAGSHIP in (technique.name for technique in hopper.TECHNIQUES)
BEST = (FLAGSHIP,) if HAS_FLAGSHIP else ("tma_store_epilogue", "cluster_multicast")
"""The rungs that the grid times, in each language: until there is a flagship, those that can be the fastest."""
FEW_ROWS = ("split_k", "small_m")
"""Rungs that can be the fastest where C has few rows."""

_over_cublas = partial(Promise, theirs=FASTEST, rivals=CUBLAS)


def promises() -> tuple[Promise, ...]:
    """In the order of the scorecard. An entry begins with its first row."""
    of_cuda = FLAGSHIP if HAS_FLAGSHIP else None
    burst = (
        _over_cublas("gemm_over_cublas", "cuda", experiment="grid", technique=of_cuda),
        Promise("gemm_over_torch_mm", "cuda", ANCHOR, "grid", technique=of_cuda),
        _over_cublas("gemm_triton_over_cublas", "triton", experiment="grid"),
        _over_cublas("gemm_gluon_over_cublas", "gluon", experiment="grid"),
    )
    sustained = partial(_over_cublas, experiment="sustained", mode="sustained")
    return (
        *burst,
        sustained("gemm_over_cublas_sustained", "cuda", technique=of_cuda),
        sustained("gemm_triton_over_cublas_sustained", "triton"),
        sustained("gemm_gluon_over_cublas_sustained", "gluon"),
    )
