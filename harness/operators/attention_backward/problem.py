"""One problem of attention's backward pass, as plain data (standard library only).

Shapes: q, o, do and dq are (batch, heads, seq_q, head_dim), k, v, dk and dv (batch, heads_kv, seq_kv, head_dim), lse is
(batch, heads, seq_q) in fp32.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from harness.operators.attention import problem as forward

ALL_PEERS = ("sdpa_flash", "sdpa_cudnn", "sdpa_math", "flex", "fa4", "fa4_deterministic")

PREFIX = "attention_backward-"


@dataclass(frozen=True, order=True)
class Problem(forward.Problem):
    """The backward pass of one attention problem, whose fields it has. `layout` is the storage order of all tensors but
    lse."""

    operator: ClassVar[str] = "attention_backward"
    example: ClassVar[str] = f"{PREFIX}{forward.Problem.example}"

    @property
    def flops(self) -> int:
        """Of five products, 10 * batch * heads * seq_q * seq_kv * head_dim, halved for causal, however many a kernel
        computes."""
        return super().flops * 5 // 2

    @property
    def least_flops(self) -> int:
        """FLOPs of the pairs that the mask shows, which `flops` rounds to one half when causal."""
        return super().least_flops * 5 // 2

    @property
    def bytes(self) -> int:
        """Least traffic with device memory: q, k, v, o, do and lse read once, dq, dk and dv written once."""
        q = self.batch * self.heads * self.seq_q * self.head_dim
        kv = self.batch * self.heads_kv * self.seq_kv * self.head_dim
        return 2 * (4 * q + 4 * kv) + 4 * self.batch * self.heads * self.seq_q

    @cached_property
    def slug(self) -> str:
        return PREFIX + super().slug

    @classmethod
    def parse(cls, slug: str) -> Problem:
        if not slug.startswith(PREFIX):
            raise ValueError(f"problem: got {slug!r}, expected a slug such as {cls.example}; it begins with {PREFIX}")
        found = super().parse(slug.removeprefix(PREFIX))
        assert isinstance(found, cls)
        return found
