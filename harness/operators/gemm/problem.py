"""One matrix product, as plain data (standard library only).

C (m, n) = epilogue(A (m, k) B (n, k)^T): in A and in B the dimension k is contiguous, in C the dimension n.
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
ALIGNED = 8
"""n and k are multiples of so many elements, so that rows are multiples of 16 bytes."""
MULTIPROCESSORS = 132
"""Of an H100 and an H200: a cell of the tile tables tells problems of one wave from larger ones."""
LARGEST_ON_A_CPU = {"m": 256, "n": 256, "k": 448}

_SLUG = re.compile(
    rf"gemm-m(\d{{1,10}})-n(\d{{1,10}})-k(\d{{1,10}})-({'|'.join(DTYPES)})(?:-({'|'.join(EPILOGUES[1:])}))?(?:-(fp32))?"
)


@dataclass(frozen=True, order=True)
class Problem:
    """One matrix product. `out` is the dtype of C."""

    m: int
    n: int
    k: int
    dtype: str = "bf16"
    epilogue: str = "plain"
    out: str = "same"
    operator: ClassVar[str] = "gemm"
    example: ClassVar[str] = "gemm-m4096-n4096-k4096-bf16"
    words: ClassVar[tuple[str, ...]] = ("gemm", *DTYPES, "fp32", *EPILOGUES[1:])
    tile_field: ClassVar[str] = "tile_key"
    tile_key: ClassVar[int] = 0

    def __post_init__(self) -> None:
        for name in ("m", "n", "k"):
            require_int32(f"problem.{name}", getattr(self, name))
        for name in ("n", "k"):
            if getattr(self, name) % ALIGNED:
                raise ValueError(f"problem.{name}: got {getattr(self, name)}, expected a multiple of {ALIGNED}")
        for name, known in (("dtype", DTYPES), ("epilogue", EPILOGUES), ("out", OUTPUTS)):
            if getattr(self, name) not in known:
                raise ValueError(f"problem.{name}: got {getattr(self, name)!r}, expected one of {', '.join(known)}")

    @classmethod
    def square(cls, size: int, **rest: Any) -> Problem:
        return cls(size, size, size, **rest)

    @property
    def c_dtype(self) -> str:
        return self.dtype if self.out == "same" else self.out

    @property
    def flops(self) -> int:
        """2 m n k; the epilogue is not counted."""
        return 2 * self.m * self.n * self.k

    @property
    def least_flops(self) -> int:
        return self.flops

    @property
    def bytes(self) -> int:
        """A, B and the bias read once, C written once."""
        bias = 0 if self.epilogue == "plain" else self.n
        return 2 * (self.m * self.k + self.n * self.k + bias) + (4 if self.out == "fp32" else 2) * self.m * self.n

    @property
    def cells(self) -> tuple[str, ...]:
        """The shape; then few rows, one wave of tiles of 128x256, or many waves; then all."""
        waves = math.ceil(self.m / 128) * math.ceil(self.n / 256)
        kind = "few_rows" if self.m <= 64 else "one_wave" if waves <= MULTIPROCESSORS else "many_waves"
        return f"m{self.m}-n{self.n}-k{self.k}", kind, "all"

    @property
    def kernel(self) -> str:
        """What a kernel is compiled for: bf16 plain."""
        return " ".join(filter(None, (self.dtype, self.epilogue, "fp32 output" if self.out == "fp32" else "")))

    def is_ragged(self, tile: Tile) -> bool:
        """Whether the tile does not divide C."""
        return bool(self.m % tile.block_m or self.n % tile.block_n)

    def distance(self, other: Problem) -> tuple[float, bool]:
        """How unlike another problem is: in its sizes first, then in its dtype."""
        sizes = sum(abs(math.log(getattr(self, name) / getattr(other, name))) for name in ("m", "n", "k"))
        return sizes, self.dtype != other.dtype

    @property
    def smaller(self) -> Problem:
        """At most LARGEST_ON_A_CPU in each dimension."""
        return replace(self, **{name: min(getattr(self, name), most) for name, most in LARGEST_ON_A_CPU.items()})

    def tflops(self, milliseconds: float) -> float:
        """TFLOPS of a launch that takes so many milliseconds."""
        return self.flops / milliseconds / 1e9

    @cached_property
    def slug(self) -> str:
        """A name safe for files and URLs: gemm-m4096-n4096-k4096-bf16, then -bias or -gelu, then -fp32."""
        epilogue = "" if self.epilogue == "plain" else f"-{self.epilogue}"
        out = "" if self.out == "same" else f"-{self.out}"
        return f"gemm-m{self.m}-n{self.n}-k{self.k}-{self.dtype}{epilogue}{out}"

    @classmethod
    def parse(cls, slug: str) -> Problem:
        """The problem that a slug names. Raises ValueError on anything else."""
        if (found := _SLUG.fullmatch(slug)) is None:
            raise ValueError(
                f"problem: got {slug!r}, expected a slug such as {cls.example}, with -bias or -gelu behind it and "
                "-fp32 for an output in fp32"
            )
        m, n, k, dtype, epilogue, out = found.groups()
        return cls(int(m), int(n), int(k), dtype, epilogue or "plain", out or "same")

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Problem:
        return cls(**data)
