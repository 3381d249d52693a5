"""One matrix product, or products of groups of rows, as plain data (standard library only).

C (m, n) = epilogue(A (m, k) B (n, k)^T): in A and in B the dimension k is contiguous, or m in A and n in B where the
problem says so; in C the dimension n. With groups the rows of A and C are cut into as many, one after the other and
without gaps, and each has a B of its own: B (groups, n, k), as experts have that get a share of a layer's tokens each.
A group may have any number of rows, and none.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

from harness.catalog.entries import Tile, require_int32

DTYPES = ("fp16", "bf16")
EPILOGUES = ("plain", "bias", "gelu")
"""What becomes of a sum: nothing; a bias of each column is added; that, then GELU in its tanh form."""
OUTPUTS = ("same", "fp32")
"""The dtype of C: that of A and B, or fp32."""
CONTIGUOUS = ("kk", "mk", "kn", "mn")
"""The contiguous dimension of A, then that of B."""
ALIGNED = 8
"""n and k are multiples of so many elements, and m where it is contiguous, so that rows are multiples of 16 bytes."""
MULTIPROCESSORS = 132
"""Of an H100 and an H200: a cell of the tile tables tells problems of one wave from larger ones."""
LARGEST_ON_A_CPU = {"m": 256, "n": 256, "k": 448, "groups": 8}
EMPTY = 8
"""Of so many groups one has no rows."""

_SLUG = re.compile(
    rf"gemm-m(\d{{1,10}})-n(\d{{1,10}})-k(\d{{1,10}})(?:-g(\d{{1,5}}))?-({'|'.join(DTYPES)})(?:-({'|'.join(EPILOGUES[1:])}))?(?:-(fp32))?(?:-({'|'.join(CONTIGUOUS[1:])}))?"
)


@dataclass(frozen=True, order=True)
class Problem:
    """One matrix product, or one for each of `groups`, which have `m` rows together. `out` is the dtype of C, and
    `contiguous` names the contiguous dimension of A, then that of B."""

    m: int
    n: int
    k: int
    dtype: str = "bf16"
    epilogue: str = "plain"
    out: str = "same"
    groups: int = 1
    contiguous: str = "kk"
    operator: ClassVar[str] = "gemm"
    example: ClassVar[str] = "gemm-m4096-n4096-k4096-bf16"
    tile_field: ClassVar[str] = "tile_key"
    tile_key: ClassVar[int] = 0

    def __post_init__(self) -> None:
        for name in ("m", "n", "k", "groups"):
            require_int32(f"problem.{name}", getattr(self, name))
        for name, known in (
            ("dtype", DTYPES),
            ("epilogue", EPILOGUES),
            ("out", OUTPUTS),
            ("contiguous", CONTIGUOUS),
        ):
            if getattr(self, name) not in known:
                raise ValueError(f"problem.{name}: got {getattr(self, name)!r}, expected one of {', '.join(known)}")
        for name in ("n", "k", *self.contiguous[0].strip("k")):
            if getattr(self, name) % ALIGNED:
                raise ValueError(f"problem.{name}: got {getattr(self, name)}, expected a multiple of {ALIGNED}")
        if self.groups > 1 and self.contiguous != "kk":
            raise ValueError(f"problem.contiguous: got {self.contiguous!r}, expected kk for groups")
        if self.groups > 1 and self.epilogue != "plain":
            raise ValueError(f"problem.epilogue: got {self.epilogue!r}, expected plain for groups")
        if self.groups > 1 and 2 * self.groups > self.m:
            raise ValueError(f"problem.groups: got {self.groups}, expected at most half of m = {self.m}")

    @classmethod
    def square(cls, size: int, **rest: Any) -> Problem:
        return cls(size, size, size, **rest)

    @property
    def c_dtype(self) -> str:
        return self.dtype if self.out == "same" else self.out

    @property
    def flops(self) -> int:
        """2 m n k; the epilogue is not counted, nor what fills up tiles."""
        return 2 * self.m * self.n * self.k

    @property
    def least_flops(self) -> int:
        return self.flops

    @property
    def bytes(self) -> int:
        """A, B and the bias read once, C written once; of the B of groups those that have rows."""
        bias = 0 if self.epilogue == "plain" else self.n
        c_bytes = (4 if self.out == "fp32" else 2) * self.m * self.n
        return 2 * (self.m * self.k + self.busy_groups * self.n * self.k + bias) + c_bytes

    @property
    def busy_groups(self) -> int:
        return self.groups - self.groups // EMPTY

    @property
    def cells(self) -> tuple[str, ...]:
        """The shape; then groups, few rows, one wave of tiles of 128x256, or many waves; then all."""
        waves = math.ceil(self.m / 128) * math.ceil(self.n / 256)
        kind = "few_rows" if self.m <= 64 else "one_wave" if waves <= MULTIPROCESSORS else "many_waves"
        if self.groups > 1:
            kind = "groups"
        return f"m{self.m}-n{self.n}-k{self.k}{self._groups}", kind, "all"

    @property
    def kernel(self) -> str:
        groups = "groups" if self.groups > 1 else ""
        out = "fp32 output" if self.out == "fp32" else ""
        contiguous = "" if self.contiguous == "kk" else f"{self.contiguous} contiguous"
        return " ".join(filter(None, (self.dtype, self.epilogue, groups, out, contiguous)))

    def is_ragged(self, tile: Tile) -> bool:
        return bool(self.m % tile.block_m or self.n % tile.block_n)

    def distance(self, other: Problem) -> tuple[float, bool]:
        """How unlike another problem is: in its sizes first, then in its dtype or in what is contiguous."""
        sizes = sum(abs(math.log(getattr(self, name) / getattr(other, name))) for name in ("m", "n", "k", "groups"))
        return sizes, (self.dtype, self.contiguous) != (other.dtype, other.contiguous)

    @property
    def smaller(self) -> Problem:
        """At most LARGEST_ON_A_CPU in each dimension."""
        return replace(self, **{name: min(getattr(self, name), most) for name, most in LARGEST_ON_A_CPU.items()})

    @cached_property
    def slug(self) -> str:
        """A name safe for files and URLs: gemm-m4096-n4096-k4096-bf16, then -bias or -gelu, then -fp32, then -mk, -kn
        or -mn for what is contiguous in A and in B; with -g32 behind the sizes for groups."""
        epilogue = "" if self.epilogue == "plain" else f"-{self.epilogue}"
        out = "" if self.out == "same" else f"-{self.out}"
        contiguous = "" if self.contiguous == "kk" else f"-{self.contiguous}"
        return f"gemm-m{self.m}-n{self.n}-k{self.k}{self._groups}-{self.dtype}{epilogue}{out}{contiguous}"

    @property
    def _groups(self) -> str:
        return f"-g{self.groups}" if self.groups > 1 else ""

    @classmethod
    def parse(cls, slug: str) -> Problem:
        """The problem that a slug names. Raises ValueError on anything else."""
        if (found := _SLUG.fullmatch(slug)) is None:
            raise ValueError(
                f"problem: got {slug!r}, expected a slug such as {cls.example}, with -bias or -gelu behind it, -fp32 "
                "for an output in fp32, -mk, -kn or -mn where m is contiguous in A or n in B; -g32 behind the sizes "
                "for 32 groups"
            )
        m, n, k, groups, dtype, epilogue, out, contiguous = found.groups()
        sizes, rest = (int(m), int(n), int(k)), (epilogue or "plain", out or "same", int(groups or 1))
        return cls(*sizes, dtype, *rest, contiguous or "kk")

    def to_dict(self) -> dict[str, Any]:
        """Without `groups` where there is one, and `contiguous` where it is k: rows of such products do not name
        it."""
        usual = {("groups", 1), ("contiguous", "kk")}
        return {name: value for name, value in asdict(self).items() if (name, value) not in usual}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Problem:
        return cls(**data)
