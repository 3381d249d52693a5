"""A kernel of attention's backward pass that a proof is about."""

from __future__ import annotations

from dataclasses import dataclass

from harness.expressibility import claims
from harness.operators.attention_backward.problem import Problem


@dataclass(frozen=True)
class Twin(claims.Twin):
    """In bf16 and with head_dim 128, without a mask."""

    technique: str
    backend: str
    tile: str | None = None
    arch: str = "sm_90a"
    version: str | None = None
    dialect: str | None = None

    @property
    def problem(self) -> Problem:
        return Problem(2, 4, 4, 1024, 1024, 128)

    @property
    def label(self) -> str:
        tile = f" {self.tile}" if self.tile else ""
        version = f"@{self.version}" if self.version else ""
        return f"{self.backend}{version} attention_backward/{self.technique}{tile} {self.arch}"
