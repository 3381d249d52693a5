"""A kernel of attention's backward pass that a proof is about."""

from dataclasses import dataclass
from typing import ClassVar

from harness.expressibility import claims
from harness.operators.attention_backward.problem import Problem


@dataclass(frozen=True)
class Twin(claims.Twin):
    """In bf16 and with head_dim 128, without a mask."""

    problem: ClassVar[Problem] = Problem(2, 4, 4, 1024, 1024, 128)
