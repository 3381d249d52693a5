"""A kernel of matrix products that a proof is about."""

from __future__ import annotations

from dataclasses import dataclass

from harness.expressibility import claims
from harness.operators.gemm.problem import Problem


@dataclass(frozen=True)
class Twin(claims.Twin):
    """On a square that every tile divides, in bf16."""

    technique: str
    backend: str
    tile: str | None = None
    arch: str = "sm_90a"
    version: str | None = None
    dialect: str | None = None

    @property
    def problem(self) -> Problem:
        return Problem.square(4096)

    @property
    def label(self) -> str:
        tile = f" {self.tile}" if self.tile else ""
        version = f"@{self.version}" if self.version else ""
        return f"{self.backend}{version} gemm/{self.technique}{tile} {self.arch}"
