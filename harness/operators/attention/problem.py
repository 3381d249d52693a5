"""One problem of attention forward, as plain data (standard library only).

Shapes follow the twin contract: q and o are (batch, heads, seq_q, head_dim), k and v are
(batch, heads_kv, seq_kv, head_dim), lse is (batch, heads, seq_q) in fp32.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

from harness.catalog.entries import Tile, made, require_int32

DTYPES = ("fp16", "bf16")
LAYOUTS = ("bhsd", "bshd")
ANCHOR = "sdpa_cudnn"
PEERS = (ANCHOR, "sdpa_flash")
"""Libraries timed beside the twins where an experiment names no others: cuDNN and FlashAttention-2, as torch has
them."""
ALL_PEERS = ("sdpa_flash", "sdpa_cudnn", "sdpa_math", "flex", "fa2", "fa3", "fa4", "flash_attention")
"""Every library that can be a peer, and this project's own function as its users call it."""

LONGEST_ON_A_CPU = 512
"""Queries or keys of a problem that a CPU does in seconds."""

_PARTS = {
    "batch": (r"b(\d{1,10})", "b4"),
    "heads": (r"h(\d{1,10})(?:k(\d{1,10}))?", "h16, or h16k4 where four heads share one of K and V"),
    "length": (r"n(\d{1,10})|q(\d{1,10})k(\d{1,10})", "n4096, or q1k4096 where queries and keys are not as many"),
    "head_dim": (r"d(\d{1,10})", "d128"),
    "dtype": (f"({'|'.join(DTYPES)})", " or ".join(DTYPES)),
    "mask": ("(causal|full)", "causal or full"),
    "layout": (f"({'|'.join(LAYOUTS)})", f"{' or '.join(LAYOUTS)}, or leave it out"),
}
"""Parts of a slug: a pattern, and how they are written. The layout may be missing."""


@dataclass(frozen=True, order=True)
class Problem:
    """One attention forward problem. Lengths are in tokens; `layout` is the storage order of q, k, v and o.

    Causal masks are aligned bottom-right: query i sees key j when j <= i + seq_kv - seq_q.
    """

    batch: int
    heads: int
    heads_kv: int
    seq_q: int
    seq_kv: int
    head_dim: int
    dtype: str = "bf16"
    causal: bool = False
    layout: str = "bhsd"
    operator: ClassVar[str] = "attention"
    example: ClassVar[str] = "b4-h16-n4096-d128-bf16-causal"
    tile_field: ClassVar[str] = "head_dim"

    def __post_init__(self) -> None:
        for name in ("batch", "heads", "heads_kv", "seq_q", "seq_kv", "head_dim"):
            require_int32(f"problem.{name}", getattr(self, name))
        if self.heads % self.heads_kv:
            raise ValueError(f"problem.heads: got {self.heads}, expected a multiple of heads_kv={self.heads_kv}")
        if self.dtype not in DTYPES:
            raise ValueError(f"problem.dtype: got {self.dtype!r}, expected one of {', '.join(DTYPES)}")
        if not isinstance(self.causal, bool):
            raise ValueError(f"problem.causal: got {self.causal!r}, expected True or False")
        if self.layout not in LAYOUTS:
            raise ValueError(f"problem.layout: got {self.layout!r}, expected one of {', '.join(LAYOUTS)}")

    @classmethod
    def square(cls, batch: int, heads: int, seq: int, head_dim: int, **rest: Any) -> Problem:
        """Self-attention: seq_q = seq_kv and heads_kv = heads."""
        return cls(batch, heads, heads, seq, seq, head_dim, **rest)

    @classmethod
    def comparison_grid(cls, lengths: Iterable[int], head_dims: Iterable[int] = (64, 128, 256)) -> tuple[Problem, ...]:
        """Self-attention of 16384 tokens and a model width of 2048, full and causal: the points at which attention
        kernels are commonly compared. Length by length, in the order given, so that a run cut short has whole
        ones."""
        return tuple(
            cls.square(16_384 // seq, 2048 // head_dim, seq, head_dim, causal=causal)
            for seq in lengths
            for head_dim in head_dims
            for causal in (False, True)
        )

    @property
    def scale(self) -> float:
        """The factor on q.k before the softmax: 1 / sqrt(head_dim)."""
        return 1.0 / math.sqrt(self.head_dim)

    @property
    def mask(self) -> str:
        return "causal" if self.causal else "full"

    @property
    def flops(self) -> int:
        """4 * batch * heads * seq_q * seq_kv * head_dim, halved for causal. Softmax is not counted."""
        full = 4 * self.batch * self.heads * self.seq_q * self.seq_kv * self.head_dim
        return full // 2 if self.causal else full

    @property
    def least_flops(self) -> int:
        """FLOPs of the pairs that the mask shows, which `flops` rounds to one half when causal."""
        pairs = self.seq_q * self.seq_kv
        if self.causal:
            first = max(0, self.seq_kv - self.seq_q + 1)  # keys that the first query sees, if any
            pairs = sum(range(first, self.seq_kv + 1))
        return 4 * self.batch * self.heads * self.head_dim * pairs

    @property
    def bytes(self) -> int:
        """Least traffic with device memory: q, k, v read once, o and the fp32 log-sum-exp written once."""
        q = self.batch * self.heads * self.seq_q * self.head_dim
        kv = self.batch * self.heads_kv * self.seq_kv * self.head_dim
        return 2 * (2 * q + 2 * kv) + 4 * self.batch * self.heads * self.seq_q

    @property
    def cells(self) -> tuple[str, ...]:
        """d128-causal-short, then d128-causal: short below 2048 keys, middle below 8192, long from there on."""
        length = "short" if self.seq_kv < 2048 else "middle" if self.seq_kv < 8192 else "long"
        cell = f"d{self.head_dim}-{self.mask}"
        return f"{cell}-{length}", cell

    @property
    def tile_key(self) -> int:
        return self.head_dim

    @property
    def kernel(self) -> str:
        return f"d{self.head_dim} {self.dtype} {self.mask}"

    def is_ragged(self, tile: Tile) -> bool:
        return bool(self.seq_q % tile.block_m or self.seq_kv % tile.block_n)

    def distance(self, other: Problem) -> tuple[float, float, bool]:
        """How unlike another problem is: in its lengths first, then in heads and batches, then in its dtype."""
        length = abs(math.log(self.seq_q / other.seq_q)) + abs(math.log(self.seq_kv / other.seq_kv))
        heads = abs(math.log(self.batch * self.heads / other.batch / other.heads))
        return length, heads, self.dtype != other.dtype

    @property
    def smaller(self) -> Problem:
        """One batch, one group of heads, at most LONGEST_ON_A_CPU queries or keys in the same ratio."""
        group, factor = self.heads // self.heads_kv, max(self.seq_q, self.seq_kv) / LONGEST_ON_A_CPU
        seq_q, seq_kv = (
            max(128, round(length / factor / 128) * 128) if factor > 1 else length
            for length in (self.seq_q, self.seq_kv)
        )
        return replace(self, batch=1, heads=min(group, 4), heads_kv=1, seq_q=seq_q, seq_kv=seq_kv)

    def packed_strides(self, heads: int, rows: int) -> tuple[int, int, int]:
        """Elements between the batches, heads and rows of a tensor of so many heads and rows that fills its storage
        without gaps, in the order of `layout`."""
        if self.layout == "bshd":
            return rows * heads * self.head_dim, self.head_dim, heads * self.head_dim
        return heads * rows * self.head_dim, rows * self.head_dim, self.head_dim

    def query_tiles(self, tile: Tile) -> int:
        """Tiles of queries, those of all heads and batches."""
        return self.batch * self.heads * math.ceil(self.seq_q / tile.block_m)

    @cached_property
    def slug(self) -> str:
        heads = f"h{self.heads}" if self.heads == self.heads_kv else f"h{self.heads}k{self.heads_kv}"
        length = f"n{self.seq_q}" if self.seq_q == self.seq_kv else f"q{self.seq_q}k{self.seq_kv}"
        layout = "" if self.layout == "bhsd" else f"-{self.layout}"
        return f"b{self.batch}-{heads}-{length}-d{self.head_dim}-{self.dtype}-{self.mask}{layout}"

    @classmethod
    def parse(cls, slug: str) -> Problem:
        """The problem that a slug names. Raises ValueError on anything else, with the first part that is wrong."""
        parts, found = slug.split("-", len(_PARTS) - 1), list[Any]()
        if len(parts) == len(_PARTS) - 1:
            parts.append(LAYOUTS[0])
        parts += [""] * (len(_PARTS) - len(parts))
        for (name, (pattern, right)), part in zip(_PARTS.items(), parts, strict=True):
            match = re.fullmatch(pattern, part, re.ASCII)
            if match is None:
                wrong = f"its {name} is {part!r}" if part else f"it has no {name}"
                raise ValueError(
                    f"problem: got {slug!r}, expected a slug such as {cls.example}; {wrong}, write {right}"
                )
            found += match.groups()
        b, h, hk, n, sq, skv, d, dtype, mask, layout = found
        return cls(int(b), int(h), int(hk or h), int(n or sq), int(n or skv), int(d), dtype, mask == "causal", layout)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        return made(cls, data)
