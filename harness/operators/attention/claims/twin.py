"""A kernel of attention that a proof is about."""

from __future__ import annotations

from dataclasses import dataclass

from harness.expressibility import claims
from harness.operators.attention.problem import Problem


@dataclass(frozen=True)
class Twin(claims.Twin):
    """In bf16, without a mask."""

    technique: str
    backend: str
    head_dim: int = 64
    tile: str | None = None
    arch: str = "sm_90a"
    version: str | None = None
    dialect: str | None = None

    @property
    def problem(self) -> Problem:
        return Problem.square(2, 4, 1024, self.head_dim)

    @property
    def label(self) -> str:
        tile = f" {self.tile}" if self.tile else ""
        version = f"@{self.version}" if self.version else ""
        return f"{self.backend}{version} {self.technique} d{self.head_dim}{tile} {self.arch}"
