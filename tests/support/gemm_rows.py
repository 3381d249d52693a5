"""Invented rows of matrix products, as tests/support/synthetic_rows.py has them of attention."""

from collections.abc import Iterable, Iterator
from typing import Any

from harness.catalog import experiments, techniques
from harness.operators.gemm.problem import Problem
from tests.support import synthetic_rows as synthetic

Row = dict[str, Any]

SPEED = {
    "cuda": {"scalar": 20, "mma_ldmatrix": 240, "xor_swizzle": 480, "wgmma": 500, "pingpong": 745, "flagship": 740},
    "triton": {"scalar": 10, "mma_ldmatrix": 400, "xor_swizzle": 400, "wgmma": 560, "tma_store_epilogue": 700},
    "gluon": {"tma_store_epilogue": 710, "pingpong": 690},
}
"""TFLOPS in the ladder's first problem, and everywhere else."""
PEERS = {"cublas": 750, "cublaslt": 760, "inductor": 705}
COMPILE_S = {"cuda": 8.0, "triton": 3.0, "gluon": 5.0, "inductor": 41.0}


def hashes() -> dict[tuple[str, str], str]:
    """Of the kernels that these rows are about, under the names that a dataset and a table of rows give them."""
    return {
        (named, backend): synthetic.sha(name, backend)
        for backend, speeds in SPEED.items()
        for name in speeds
        for named in (name, f"gemm/{name}")
    }


def make(technique: str | None, backend: str, problem: Problem, tflops: float, **rest: Any) -> Row:
    """A timing that passed, at the reference tile."""
    about = {"mode": "burst", "group": problem.slug, **rest}
    row = synthetic.make("timing", None, backend, problem, None, **about)
    row |= {"operator": "gemm", "samples_ms": [problem.flops / tflops / 1e9] * 20, "clock_ghz": [1.7]}
    if technique:
        which = techniques.get(f"gemm/{technique}")
        row |= {"technique": technique, "source_sha256": synthetic.sha(technique, backend), "arch": "sm_90a"}
        row |= {"mma": which.mma, "tile": techniques.reference_tile(which, 0).to_dict()}
    if backend in COMPILE_S:
        row["compile_s"] = COMPILE_S[backend]
    return row


def of(experiment: str, problems: Iterable[Problem] = (), **rest: Any) -> Iterator[Row]:
    """All kernels and libraries on the problems of an experiment, one group each."""
    for problem in problems or experiments.load(f"gemm/{experiment}").problems:
        for backend, speeds in SPEED.items():
            for name, speed in speeds.items():
                yield make(name, backend, problem, speed, experiment=experiment, **rest)
        for peer, speed in PEERS.items():
            yield make(None, peer, problem, speed, experiment=experiment, **rest)


def rows() -> list[Row]:
    """A recorded run of the ladder and of the grid."""
    return [synthetic.ENVIRONMENT, *of("ladder"), *of("grid")]
