"""What is computed: problem, tile and experiment, as plain data (standard library only).

Shapes follow the twin contract: q and o are (batch, heads, seq_q, head_dim), k and v are
(batch, heads_kv, seq_kv, head_dim), lse is (batch, heads, seq_q) in fp32.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property, lru_cache
from itertools import product
from typing import Any

from harness.catalog.roofs import Roof

DTYPES = ("fp16", "bf16")
LAYOUTS = ("bhsd", "bshd")
ANCHOR = "sdpa_cudnn"
"""The peer that every interleaved group contains."""
MODES = ("burst", "sustained")
"""How kernels are timed: from a cool GPU, or after seconds of work."""
PEERS = (ANCHOR, "sdpa_flash")
"""Libraries timed beside the twins where an experiment names no others: cuDNN and FlashAttention-2, as torch has
them."""
ALL_PEERS = ("sdpa_flash", "sdpa_cudnn", "sdpa_math", "flex", "fa2", "fa3", "fa4")
"""Every library that can be a peer."""

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


def _require_int32(name: str, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name}: got {value!r}, expected a positive integer")
    if value >= 2**31:
        raise ValueError(f"{name}: got {value}, expected less than 2^31: kernels take it as int32")


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

    def __post_init__(self) -> None:
        for name in ("batch", "heads", "heads_kv", "seq_q", "seq_kv", "head_dim"):
            _require_int32(f"problem.{name}", getattr(self, name))
        if self.heads % self.heads_kv:
            raise ValueError(f"problem.heads: got {self.heads}, expected a multiple of heads_kv={self.heads_kv}")
        if self.dtype not in DTYPES:
            raise ValueError(f"problem.dtype: got {self.dtype!r}, expected one of {', '.join(DTYPES)}")
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
        """causal or full."""
        return "causal" if self.causal else "full"

    @property
    def flops(self) -> int:
        """4 * batch * heads * seq_q * seq_kv * head_dim, halved for causal. Softmax is not counted."""
        full = 4 * self.batch * self.heads * self.seq_q * self.seq_kv * self.head_dim
        return full // 2 if self.causal else full

    @property
    def bytes(self) -> int:
        """Least traffic with device memory: q, k, v read once, o and the fp32 log-sum-exp written once."""
        q = self.batch * self.heads * self.seq_q * self.head_dim
        kv = self.batch * self.heads_kv * self.seq_kv * self.head_dim
        return 2 * (2 * q + 2 * kv) + 4 * self.batch * self.heads * self.seq_q

    def packed_strides(self, heads: int, rows: int) -> tuple[int, int, int]:
        """Elements between the batches, heads and rows of a tensor of so many heads and rows that fills its storage
        without gaps, in the order of `layout`."""
        if self.layout == "bshd":
            return rows * heads * self.head_dim, self.head_dim, heads * self.head_dim
        return heads * rows * self.head_dim, rows * self.head_dim, self.head_dim

    def query_tiles(self, tile: Tile) -> int:
        """Tiles of queries, those of all heads and batches."""
        return self.batch * self.heads * math.ceil(self.seq_q / tile.block_m)

    def tflops(self, milliseconds: float) -> float:
        """TFLOPS of a launch that takes so many milliseconds."""
        return self.flops / milliseconds / 1e9

    @cached_property
    def slug(self) -> str:
        """A name safe for files and URLs, and readable: b4-h16-n4096-d128-bf16-causal."""
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
            match = re.fullmatch(pattern, part)
            if match is None:
                wrong = f"its {name} is {part!r}" if part else f"it has no {name}"
                raise ValueError(
                    f"problem: got {slug!r}, expected a slug such as b4-h16-n4096-d128-bf16-causal; {wrong}, "
                    f"write {right}"
                )
            found += match.groups()
        b, h, hk, n, sq, skv, d, dtype, mask, layout = found
        return cls(int(b), int(h), int(hk or h), int(n or sq), int(n or skv), int(d), dtype, mask == "causal", layout)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Problem:
        """Equal dicts give one object: a report reads the problem of every row a hundred times."""
        try:
            return _problem(tuple(data), *data.values())
        except TypeError:  # a value without a hash, which the constructor refuses by name
            return cls(**data)


@lru_cache(maxsize=None, typed=True)
def _problem(names: tuple[str, ...], *values: Any) -> Problem:
    """Typed, because 1 and True are equal."""
    return Problem(**dict(zip(names, values, strict=True)))


_TILE_PARTS = {"size": (r"\d+x\d+", "64x128"), "stages": (r"s\d+", "s2"), "warps": (r"w\d+", "w4")}
"""As _PARTS."""


@dataclass(frozen=True, order=True)
class Tile:
    """How a kernel cuts the work: query rows and keys per step, shared-memory stages of K/V, warps that do math.

    `extra` holds options that only one language has (num_ctas, warp_specialize, maxnreg), as sorted pairs.
    """

    block_m: int
    block_n: int
    stages: int = 1
    warps: int = 4
    extra: tuple[tuple[str, int], ...] = field(default=())

    def __post_init__(self) -> None:
        for name in ("block_m", "block_n", "stages", "warps"):
            _require_int32(f"tile.{name}", getattr(self, name))
        object.__setattr__(self, "extra", tuple(sorted((str(k), int(v)) for k, v in self.extra)))

    @classmethod
    def grid(
        cls, block_m: Iterable[int], block_n: Iterable[int], stages: Iterable[int], warps: Iterable[int]
    ) -> tuple[Tile, ...]:
        """Every combination, in the order of the arguments."""
        return tuple(cls(*cell) for cell in product(block_m, block_n, stages, warps))

    @property
    def slug(self) -> str:
        """64x128-s2-w4, followed by any extra options."""
        return f"{self.block_m}x{self.block_n}-s{self.stages}-w{self.warps}" + "".join(
            f"-{name}{value}" for name, value in self.extra
        )

    @classmethod
    def parse(cls, slug: str) -> Tile:
        """The tile that a slug names. Raises ValueError on anything else."""
        match = re.fullmatch(r"(\d+)x(\d+)-s(\d+)-w(\d+)((?:-[a-z_]+\d+)*)", slug)
        if not match:
            parts = dict(zip(_TILE_PARTS, slug.split("-"), strict=False))
            wrong = next((n for n, (how, _) in _TILE_PARTS.items() if not re.fullmatch(how, parts.get(n, ""))), None)
            told = f"its {wrong} is {parts[wrong]!r}" if wrong in parts else f"it has no {wrong}"
            told = f"; {told}, write {_TILE_PARTS[wrong][1]}" if wrong else ""
            raise ValueError(f"tile: got {slug!r}, expected a slug such as 64x128-s2-w4{told}")
        block_m, block_n, stages, warps, levers = match.groups()
        extra = tuple((name, int(value)) for name, value in re.findall(r"-([a-z_]+)(\d+)", levers))
        return cls(int(block_m), int(block_n), int(stages), int(warps), extra)

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "extra": dict(self.extra)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Tile:
        """Equal dicts give one object, as for problems."""
        fields = {**data, "extra": tuple(dict(data.get("extra") or {}).items())}
        try:
            return _tile(tuple(fields), *fields.values())
        except TypeError:  # a value without a hash, which the constructor refuses by name
            return cls(**fields)


@lru_cache(maxsize=None, typed=True)
def _tile(names: tuple[str, ...], *values: Any) -> Tile:
    """Typed, because 1 and True are equal."""
    return Tile(**dict(zip(names, values, strict=True)))


@dataclass(frozen=True)
class Experiment:
    """One question and the grid of measurements that answers it.

    `name` is the stem of the file, which opens with the question. `backends` are timed for every technique, `peers`
    once per problem. `tiles` is "reference" (the registry's) and/or "best" (the committed table's). `modes` are timing
    modes: "burst" and/or "sustained". `distributions` are the inputs of the gate.
    `cells` are (problem, technique, tile) beside that grid: on one of `problems`, at a tile of their own, in all of
    `backends`, or in the one that follows the tile. `padded`: at the gate rows of NaN lie behind every
    sequence, for techniques that take any stride. `assembler` is "shared" where nvcc's ptxas assembles Triton's
    programs too. `roofs` are limits of the hardware, measured by kernels of their own. `at_its_tile` are CUDA kernels
    at the best tile of the first technique, whatever their own is. With `one_group` all that is timed of a problem is
    interleaved with each other, in replicates too. `sharing`: so many other processes use the same GPU while kernels
    are gated, as on a machine that people share.
    """

    name: str
    problems: tuple[Problem, ...]
    techniques: tuple[str, ...]
    backends: tuple[str, ...] = ("cuda", "triton", "triton_native")
    peers: tuple[str, ...] = PEERS
    tiles: tuple[str, ...] = ("reference",)
    modes: tuple[str, ...] = ("burst",)
    distributions: tuple[str, ...] = (
        *("normal", "shifted", "outliers", "large_logits", "constant_rows", "negative_scores"),
    )
    seeds: tuple[int, ...] = (0,)
    cells: tuple[tuple[Problem, str, Tile] | tuple[Problem, str, Tile, str], ...] = ()
    padded: bool = False
    assembler: str | None = None
    roofs: tuple[Roof, ...] = ()
    sharing: int = 0
    at_its_tile: tuple[str, ...] = ()
    one_group: bool = False
