"""A kernel of attention that a proof is about."""

from dataclasses import dataclass
from typing import Any

from harness.expressibility import claims
from harness.expressibility.claims import Detector, Proof
from harness.operators.attention.problem import Problem


@dataclass(frozen=True)
class Twin(claims.Twin):
    """In bf16, without a mask."""

    head_dim: int = 64

    @property
    def problem(self) -> Problem:
        return Problem.square(2, 4, 1024, self.head_dim)

    @property
    def label(self) -> str:
        return self._label(f"{self.technique} d{self.head_dim}")


def twins(backend: str, subject: str, control: str, **alike: Any) -> tuple[Twin, Twin]:
    """The two kernels of a proof, where they differ in their technique alone."""
    return Twin(subject, backend, **alike), Twin(control, backend, **alike)


UNDER_PV = Detector(
    "sass",
    r"0x1 (?:MUFU\.EX2 )+0x0",
    in_loop=True,
    order=r"MUFU\.EX2|(?<=WARPGROUP\.DEPBAR\.LE gsb0, )0x\d",
)
"""In machine code some exponentials come between the wait for Q K^T and the wait for P V."""


def under_pv(backend: str, language: str) -> tuple[Proof, ...]:
    """What ptxas makes of a softmax between the two waits, in the rung overlapped_softmax and in the flagship."""
    rung, flagship = Twin("overlapped_softmax", backend), Twin("flagship", backend)
    return (
        Proof(
            f"overlapped_softmax in {language}, machine code",
            "In the machine code of overlapped_softmax every exponential comes behind the wait for P V.",
            rung,
            flagship,
            UNDER_PV,
            seen=False,
        ),
        Proof(
            f"softmax under P V of the flagship in {language}",
            "In the flagship's some come before it.",
            flagship,
            rung,
            UNDER_PV,
        ),
    )
