"""What libraries, ratios and problems are called on pages."""

from __future__ import annotations

from harness.operators.gemm.problem import Problem

LABELS = {
    "cublas": "cuBLAS",
    "cublaslt": "cuBLASLt, best heuristic",
    "inductor": "Inductor's Triton templates",
    "gemm": "matrix products in CUDA",
    "gemm_triton": "matrix products in core Triton",
    "gemm_gluon": "matrix products in Gluon",
    "cublas_sustained": "cuBLAS, sustained",
}


def problem_title(problem: Problem) -> str:
    """A square by its size, others by all three; what is special behind it."""
    square = problem.m == problem.n == problem.k
    sizes = f"{problem.m} cubed" if square else f"{problem.m} x {problem.n} x {problem.k}"
    epilogue = {"plain": "", "bias": ", bias", "gelu": ", bias and GELU"}[problem.epilogue]
    out = ", fp32 output" if problem.out == "fp32" else ""
    return f"{sizes}  ({problem.dtype}{epilogue}{out})"


def problem_order(problem: Problem) -> tuple[bool, int, int, int, str]:
    """Squares first, the largest of them first; then by rows."""
    square = problem.m == problem.n == problem.k
    return not square, -problem.m if square else problem.m, problem.n, problem.k, problem.slug
