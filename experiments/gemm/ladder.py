"""What does each step of a matrix product buy, in each language?

Every rung of both ladders runs in CUDA, in Triton and, where it has a kernel, in Gluon, at its reference tile and at
the tile tuned for it, on a square that fills the GPU four times. Rungs without tensor cores take a smaller square, with
mma_ldmatrix, the first rung that uses them. Rungs for few rows take problems that have few. Those about the last wave
also take squares that leave most of it empty, and those about writing C a short k. Each runs with the rungs that it
builds on. cuBLAS shows how fast a product can be. The gate draws inputs from three distributions; the experiment
correctness has all six.
"""

if __name__ == "__main__":
    import _script  # noqa: F401

from harness.catalog.entries import Experiment
from harness.operators.gemm.ladders import ampere, hopper
from harness.operators.gemm.libraries import CUBLAS
from harness.operators.gemm.problem import Problem

RUNGS = (*ampere.TECHNIQUES, *hopper.TECHNIQUES)
SCALAR = tuple(technique.name for technique in RUNGS if technique.mma == "fma")
FEW_ROWS = ("evict_first", "split_k", "small_m")
RUNS = {
    Problem.square(4096): tuple(one.name for one in RUNGS if one.name not in (*SCALAR, *FEW_ROWS)),
    Problem.square(3072): ("tma_store_epilogue", "cluster_multicast", "tile_192", "stream_k"),
    Problem.square(5120): ("square_waves", "columns_320"),
    Problem(8192, 8192, 512): ("trailing_store", "overlapped_index", "pingpong", "pingpong_store", "evict_c_first"),
    Problem(64, 4096, 14_336): ("tma_swizzle", "two_consumers", "split_k", "small_m"),
    Problem(64, 14_336, 4096): ("producer_consumer", "evict_first"),
    Problem.square(2048): (*SCALAR, "mma_ldmatrix"),
}
"""Problem -> the rungs that run there."""

EXPERIMENT = Experiment(
    problems=tuple(RUNS),
    techniques=tuple(one.name for one in RUNGS),
    where={one.name: tuple(problem for problem, names in RUNS.items() if one.name in names) for one in RUNGS},
    backends=("cuda", "triton", "gluon"),
    peers=CUBLAS,
    tiles=("reference", "best"),
    distributions=("positive", "outliers", "cancellation"),
)
