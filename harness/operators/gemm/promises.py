"""The ratios of matrix products that the scorecard follows. Standard library only."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from harness.catalog.promises import FASTEST, Promise
from harness.operators.gemm.libraries import ANCHOR, CUBLAS
from harness.operators.gemm.problem import Problem

FLAGSHIP = "flagship"
BEST = {"cuda": (FLAGSHIP,), "triton": (FLAGSHIP, "tma_store_epilogue"), "gluon": (FLAGSHIP, "tma_store_epilogue")}
"""Language -> the rungs that can be its fastest."""
FEW_ROWS = ("split_k", "small_m")
"""Those beside them where C has at most FEW rows; the CUDA flagship has both."""
FEW = 256


def best(problem: Problem) -> Iterator[tuple[Any, str, None, str]]:
    """Cells of an experiment: every rung that can be the fastest of its language there."""
    for language, names in BEST.items():
        further = FEW_ROWS if problem.m <= FEW and language != "cuda" else ()
        yield from ((problem, name, None, language) for name in (*names, *further))


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
