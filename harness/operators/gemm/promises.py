"""The ratios of matrix products that the scorecard follows. Standard library only."""

from functools import partial

from harness.catalog.promises import FASTEST, Promise
from harness.operators.gemm.libraries import ANCHOR, CUBLAS, GROUPED_RIVALS

FLAGSHIP = "flagship"

GROUPED = "grouped"

_over_cublas = partial(Promise, theirs=FASTEST, rivals=CUBLAS)
_over_best_peer = partial(Promise, theirs=FASTEST, rivals=GROUPED_RIVALS, experiment=GROUPED)


def promises() -> tuple[Promise, ...]:
    sustained = partial(_over_cublas, experiment="sustained", mode="sustained")
    return (
        _over_cublas("gemm_over_cublas", "cuda", experiment="grid", technique=FLAGSHIP),
        Promise("gemm_over_torch_mm", "cuda", ANCHOR, "grid", technique=FLAGSHIP),
        _over_cublas("gemm_triton_over_cublas", "triton", experiment="grid"),
        _over_cublas("gemm_gluon_over_cublas", "gluon", experiment="grid"),
        sustained("gemm_over_cublas_sustained", "cuda", technique=FLAGSHIP),
        sustained("gemm_triton_over_cublas_sustained", "triton"),
        sustained("gemm_gluon_over_cublas_sustained", "gluon"),
        _over_best_peer("grouped_over_best_peer", "cuda", technique=GROUPED),
        _over_best_peer("grouped_triton_over_best_peer", "triton"),
        _over_best_peer("grouped_gluon_over_best_peer", "gluon"),
    )
