"""A kernel of matrix products that a proof is about."""

from dataclasses import dataclass, replace
from typing import ClassVar

from harness.expressibility import claims
from harness.operators.gemm.problem import Problem


@dataclass(frozen=True)
class Twin(claims.Twin):
    """On a square that every tile divides, in bf16."""

    problem: ClassVar[Problem] = Problem.square(4096)


@dataclass(frozen=True, kw_only=True)
class Ordered(claims.Twin):
    """On Twin's square, with A and B in another order in memory, one of problem.CONTIGUOUS."""

    contiguous: str

    @property
    def problem(self) -> Problem:
        return replace(Twin.problem, contiguous=self.contiguous)

    @property
    def label(self) -> str:
        return f"{super().label} {self.contiguous}"
