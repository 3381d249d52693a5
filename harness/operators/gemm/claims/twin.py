"""A kernel of matrix products that a proof is about."""

from dataclasses import dataclass
from typing import ClassVar

from harness.expressibility import claims
from harness.operators.gemm.problem import Problem


@dataclass(frozen=True)
class Twin(claims.Twin):
    """On a square that every tile divides, in bf16."""

    problem: ClassVar[Problem] = Problem.square(4096)
