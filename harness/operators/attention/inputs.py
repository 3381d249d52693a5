"""The same inputs for every backend: seeded values, in memory whose surroundings tell of reads and writes outside.

Every tensor is a view into an arena: guard bands of NaN before and after it, so that a read beyond the end turns the
result into NaN, and a write beyond the end is seen afterwards, bit by bit. A kernel that drops NaN is found out by
large numbers in their place.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from harness.catalog.problem import Problem

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}

GUARD_ROWS = 256
"""Rows of a guard band: more than the tallest tile, so that a tile that begins inside the tensor ends in the band."""
PAD = {"q": 16, "k": 32, "v": 48, "o": 64}
"""Guard rows after every sequence and guard columns after every row of a padded arena: no two have the same strides, so
that a kernel that takes one tensor's for another's is found out."""
CPU_LIMIT = 2**24
"""Elements up to which values are drawn on the CPU, so that every device gets the same ones. Larger tensors are drawn
on their device, whose generator is faster and another one."""
LARGE_LOGIT_STD = 30.0
NEGATIVE_SCORE = 120.0
"""By so much all scores of a distribution are lower: exp of them is 0 in fp32, that of a masked score of -50 is not."""
LOWER = 3
"""By so many times as much those of the first half of the keys: a running max that stays where the first tile put it
lets exp overflow, and one that begins with -200 lets it be 0."""
LIFTED = 8
"""Columns of q and k that carry them: as many as a 16-byte load has."""

# Bit patterns, by bytes per element. The NaN has a payload that no arithmetic makes, in fp16 as well as in bf16.
_INTEGER = {2: torch.int16, 4: torch.int32}
POISON = {
    "nan": {2: 0x7FAD, 4: 0x7FADDEAD},
    "finite": {2: 0x5A5A, 4: 0x5A5A5A5A},
}

Shape = tuple[int, int, int, int]


def _normal(name: str, shape: Shape, generator: torch.Generator) -> torch.Tensor:
    """N(0, 1)."""
    return torch.randn(shape, generator=generator, device=generator.device)


def _shifted(name: str, shape: Shape, generator: torch.Generator) -> torch.Tensor:
    """N(0, 1) + 0.5: O keeps away from zero, so that an error is not lost in its noise."""
    return _normal(name, shape, generator) + 0.5


def _outliers(name: str, shape: Shape, generator: torch.Generator) -> torch.Tensor:
    """N(0, 1), and on top of one element in a thousand N(0, 10^2): the activations of large models look like that."""
    values = _normal(name, shape, generator)
    hit = torch.rand(shape, generator=generator, device=generator.device) < 1e-3
    return values.add_(hit * _normal(name, shape, generator), alpha=10.0)


def _large_logits(name: str, shape: Shape, generator: torch.Generator) -> torch.Tensor:
    """Scores with standard deviation 30: nearly one-hot rows, and a running max that moves far.

    With q, k ~ N(0, a^2) the scores q.k / sqrt(head_dim) have standard deviation a^2.
    """
    values = _normal(name, shape, generator)
    return values if name == "v" else values.mul_(LARGE_LOGIT_STD**0.5)


def _constant_rows(name: str, shape: Shape, generator: torch.Generator) -> torch.Tensor:
    """All keys of a head are equal, so the softmax is uniform, P is exactly 1 and O is the mean of the visible V.

    V is shifted, or O would be near zero and a wrong number of keys would hardly move it.
    """
    values = _normal(name, shape, generator)
    if name == "k":
        return values[:, :, :1].expand(shape)
    return values.add_(0.5) if name == "v" else values


def _negative_scores(name: str, shape: Shape, generator: torch.Generator) -> torch.Tensor:
    """N(0, 1), and every score is lower by NEGATIVE_SCORE: LIFTED columns of q and k are constants of other signs.
    The first half of the keys is lower by LOWER times as much; in the last of several heads all keys are.

    A softmax does not see the shift. A running max that begins with 0 or never moves does, and a mask that is no
    infinity. V is shifted.
    """
    values = _normal(name, shape, generator)
    if name == "v":
        return values.add_(0.5)
    height = math.sqrt(NEGATIVE_SCORE * math.sqrt(shape[-1]) / SCALE_FACTORS["negative_scores"] / LIFTED)
    values[..., -LIFTED:] = height if name == "q" else -height
    if name == "k":
        values[:, :, : shape[2] // 2, -LIFTED:] *= LOWER
        if shape[0] * shape[1] > 1:
            values[-1, -1, shape[2] // 2 :, -LIFTED:] *= LOWER
    return values


SCALE_FACTORS = {"negative_scores": 1.5}
"""By what the scale of a distribution differs from 1 / sqrt(head_dim), where it does: a kernel takes it as given."""

BEYOND_FP16 = {"outliers": {"q": 2.0**20, "k": 2.0**-20, "v": 2.0**20}}
"""Factors of a distribution's q, k and v in bf16. Scores stay what they are, and powers of two round nothing; but fp16
holds none of the values, so that a kernel that computes bf16 in fp16 is found out."""

DISTRIBUTIONS: dict[str, Callable[[str, Shape, torch.Generator], torch.Tensor]] = {
    "normal": _normal,
    "shifted": _shifted,
    "outliers": _outliers,
    "large_logits": _large_logits,
    "constant_rows": _constant_rows,
    "negative_scores": _negative_scores,
}
"""Name -> function (tensor name, shape, generator) -> fp32 values of that shape on the generator's device."""


def shapes(problem: Problem) -> dict[str, Shape]:
    """The logical shape of q, k and v, whatever their layout."""
    kv = (problem.batch, problem.heads_kv, problem.seq_kv, problem.head_dim)
    return {"q": (problem.batch, problem.heads, problem.seq_q, problem.head_dim), "k": kv, "v": kv}


@dataclass(frozen=True)
class Sample:
    """Values of q, k and v in the problem's dtype, contiguous in their logical shape: the same for both layouts."""

    distribution: str
    seed: int
    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor


def sample(problem: Problem, distribution: str, seed: int, device: torch.device | str) -> Sample:
    """Draws q, k and v. Raises ValueError for an unknown distribution."""
    if distribution not in DISTRIBUTIONS:
        raise ValueError(f"distribution: got {distribution!r}, expected one of {', '.join(DISTRIBUTIONS)}")
    draw, values = DISTRIBUTIONS[distribution], {}
    factors = BEYOND_FP16.get(distribution, {}) if problem.dtype == "bf16" else {}
    for number, (name, shape) in enumerate(shapes(problem).items()):
        generator = torch.Generator("cpu" if torch.Size(shape).numel() <= CPU_LIMIT else device)
        generator.manual_seed(3 * seed + number)
        drawn = draw(name, shape, generator)
        if name in factors:
            drawn = drawn * factors[name]
        values[name] = drawn.to(DTYPES[problem.dtype]).to(device).contiguous()
    return Sample(distribution, seed, **values)


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Bitwise equality, so that NaN equals itself and -0 differs from 0."""
    integer = _INTEGER[a.element_size()]
    return torch.equal(a.view(integer), b.view(integer))


class Arena:
    """One tensor inside a larger allocation that is filled with a poison pattern.

    `tensor` has the logical shape (batch, heads, seq, ...) in storage order `layout`; bands of at least GUARD_ROWS rows
    lie before and after it, `pad` rows after every sequence and, where it has columns, `pad` of them after every row
    (which make all strides larger than contiguous). Address and strides stay multiples of 16 elements.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: torch.dtype,
        device: torch.device | str,
        layout: str = "bhsd",
        pad: int = 0,
        poison: str = "nan",
    ) -> None:
        rows = shape[2] + pad
        stored = [shape[0], shape[1], rows, *(columns + pad for columns in shape[3:])]
        if layout == "bshd":
            stored[1], stored[2] = stored[2], stored[1]
        size = torch.Size(stored).numel()
        row = size // (shape[0] * rows)  # elements per step of the sequence, or more
        self._shape, self._stored, self._layout = shape, stored, layout
        self._guard = GUARD_ROWS * row
        self._memory = torch.empty(size + 2 * self._guard, dtype=dtype, device=device)
        self.poison(poison)
        self.tensor = self._view(self._memory)

    def _view(self, memory: torch.Tensor) -> torch.Tensor:
        block = memory[self._guard : memory.numel() - self._guard].view(self._stored)
        logical = block.transpose(1, 2) if self._layout == "bshd" else block
        return logical[tuple(slice(size) for size in self._shape)]

    def poison(self, pattern: str) -> None:
        """Fills tensor and guards with a pattern of POISON."""
        width = self._memory.element_size()
        self._bits = POISON[pattern][width]
        self._memory.view(_INTEGER[width]).fill_(self._bits)

    def guards_intact(self) -> bool:
        memory = self._memory.view(_INTEGER[self._memory.element_size()]).clone()
        self._view(memory).fill_(self._bits)
        return bool((memory == self._bits).all())

    def unwritten(self) -> torch.Tensor:
        """Where the tensor still holds the poison: a bool tensor of its shape."""
        return self.tensor.view(_INTEGER[self.tensor.element_size()]) == self._bits


class Inputs:
    """q, k and v in arenas of their own, holding `sample`."""

    def __init__(self, problem: Problem, sample: Sample, *, padded: bool = False) -> None:
        dtype, device = DTYPES[problem.dtype], sample.q.device
        self.arenas = {
            name: Arena(shape, dtype, device, problem.layout, PAD[name] * padded)
            for name, shape in shapes(problem).items()
        }
        self.q, self.k, self.v = (self.arenas[name].tensor for name in ("q", "k", "v"))
        self.load(sample)

    def load(self, sample: Sample, around: str = "nan") -> None:
        """Copies other values in, with a pattern of POISON around them; addresses stay, so that a kernel cannot tell
        new inputs by their pointers."""
        self.sample = sample
        for name, arena in self.arenas.items():
            arena.poison(around)
            arena.tensor.copy_(getattr(sample, name))

    def changed(self) -> list[str]:
        """Names of the tensors that no longer hold the sample."""
        return [name for name, arena in self.arenas.items() if not same_bits(arena.tensor, getattr(self.sample, name))]

    def unchanged(self) -> bool:
        """Values and guard bands are as they were."""
        return not self.changed() and all(arena.guards_intact() for arena in self.arenas.values())


class Outputs:
    """o, in the problem's layout and dtype, and lse, fp32 (batch, heads, seq_q) contiguous; each in its own arena."""

    def __init__(self, problem: Problem, device: torch.device | str, poison: str = "nan", padded: bool = False) -> None:
        shape = shapes(problem)["q"]
        self.arenas = {
            "o": Arena(shape, DTYPES[problem.dtype], device, problem.layout, PAD["o"] * padded, poison),
            "lse": Arena(shape[:3], torch.float32, device, poison=poison),
        }
        self.o, self.lse = self.arenas["o"].tensor, self.arenas["lse"].tensor

    def poison(self, pattern: str = "nan") -> None:
        for arena in self.arenas.values():
            arena.poison(pattern)

    def guards_intact(self) -> bool:
        return all(arena.guards_intact() for arena in self.arenas.values())


def make(problem: Problem, distribution: str, seed: int, device: torch.device | str, *, padded: bool = False) -> Inputs:
    """Inputs of `problem`, drawn from `distribution` with `seed`."""
    return Inputs(problem, sample(problem, distribution, seed, device), padded=padded)


def make_outputs(problem: Problem, device: torch.device | str, poison: str = "nan", *, padded: bool = False) -> Outputs:
    """Poisoned outputs of `problem`."""
    return Outputs(problem, device, poison, padded)
