"""What the instructions of a CUDA twin cost in shared and global memory, counted while it runs on a CPU.

The addresses are those of the running kernel.
"""

from __future__ import annotations

from typing import Any

from harness import build, operators
from harness.catalog import techniques
from harness.measure import arenas


def problem_of(technique: str) -> Any:
    """The small problem on which the instructions of a technique are counted."""
    operator = operators.get(techniques.get(technique).operator)
    return operator.counted or operator.benchmark.smaller


def count(case: build.Case) -> dict[str, Any]:
    """Runs a CUDA twin, or a .cu file of the user's, once and returns its row's `compiler` and `details`: {"sites":
    ..., "totals": ...}.

    Raises build.Unsupported, CompileError and Diagnosed.
    """
    variant = build.load(case, on="cpu")
    assert isinstance(variant, build.CpuCudaVariant), f"{case}: only CUDA kernels run thread by thread"
    given = arenas.make(case.problem, operators.of(case.problem).distributions[0], 0, "cpu")
    details = variant.counters(given, arenas.make_outputs(case.problem, "cpu"))
    return {"compiler": variant.compiler, "details": details}
