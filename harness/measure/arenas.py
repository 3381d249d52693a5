"""Tensors of a launch in memory whose surroundings tell of reads and writes outside. Knows no operator.

Every tensor is a view into an arena: guard bands of NaN before and after it, so that a read beyond the end turns the
result into NaN, and a write beyond the end is seen afterwards, bit by bit. A kernel that drops NaN is found out by
large numbers in their place.
"""

from collections.abc import Iterable, Mapping

import torch

from harness import operators
from harness.operators.memory import DTYPES
from harness.operators.protocol import Problem, Sample, TensorSpec

# Bit patterns, by bytes per element. The NaN has a payload that no arithmetic makes, in fp16 as well as in bf16.
_INTEGER = {2: torch.int16, 4: torch.int32}
POISON = {
    "nan": {2: 0x7FAD, 4: 0x7FADDEAD},
    "finite": {2: 0x5A5A, 4: 0x5A5A5A5A},
}


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Bitwise equality, so that NaN equals itself and -0 differs from 0."""
    integer = _INTEGER[a.element_size()]
    return torch.equal(a.view(integer), b.view(integer))


def is_poison(tensor: torch.Tensor) -> bool:
    """Whether nothing was written where the first pattern of POISON lay."""
    width = tensor.element_size()
    return bool((tensor.view(_INTEGER[width]) == POISON["nan"][width]).all())


def roll(inputs: Iterable[torch.Tensor], bases: Iterable[torch.Tensor], shift: int) -> None:
    """Fills the bytes of inputs with those of their bases, rolled as loop.cpp does."""
    for number, (dense, base) in enumerate(zip(inputs, bases, strict=True)):
        dense.copy_(base.roll(16 * shift * (2 * number + 1)))


class Arena:
    """One tensor inside a larger allocation that is filled with a poison pattern.

    `tensor` has the shape and storage order that `spec` says; bands of `spec.guard` elements lie before and after it,
    and where it is `padded`, `spec.pad` elements behind each dimension, which make all strides larger than contiguous.
    """

    def __init__(self, spec: TensorSpec, device: torch.device | str, *, padded: bool = False) -> None:
        dims = range(len(spec.shape))
        pad = spec.pad if padded and spec.pad else (0,) * len(dims)
        self._shape, self._order, self._guard = spec.shape, spec.order or tuple(dims), spec.guard
        self._stored = [spec.shape[dim] + pad[dim] for dim in self._order]
        size = torch.Size(self._stored).numel()
        self._memory = torch.empty(size + 2 * self._guard, dtype=DTYPES[spec.dtype], device=device)
        self.poison("nan")
        self.tensor = self._view(self._memory)

    def _view(self, memory: torch.Tensor) -> torch.Tensor:
        block = memory[self._guard : memory.numel() - self._guard].view(self._stored)
        logical = block.permute([self._order.index(dim) for dim in range(len(self._order))])
        return logical[tuple(slice(size) for size in self._shape)]

    @property
    def dense(self) -> torch.Tensor:
        """The bytes between the guards, in the order of memory."""
        return self._memory[self._guard : self._memory.numel() - self._guard].view(torch.uint8)

    def poison(self, pattern: str) -> None:
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
    """The tensors of a sample, each in an arena of its own. `scalars` are the numbers that a launch takes beside."""

    def __init__(self, specs: Mapping[str, TensorSpec], sample: Sample, *, padded: bool = False) -> None:
        self.arenas = {name: Arena(spec, sample.tensors[name].device, padded=padded) for name, spec in specs.items()}
        self.tensors = {name: arena.tensor for name, arena in self.arenas.items()}
        self.load(sample)

    def load(self, sample: Sample, around: str = "nan") -> None:
        """Copies other values in, with a pattern of POISON around them; addresses stay, so that a kernel cannot tell
        new inputs by their pointers."""
        self.sample, self.scalars = sample, sample.scalars
        for name, arena in self.arenas.items():
            arena.poison(around)
            arena.tensor.copy_(sample.tensors[name])

    def changed(self) -> list[str]:
        """Names of the tensors that no longer hold the sample."""
        return [name for name, tensor in self.tensors.items() if not same_bits(tensor, self.sample.tensors[name])]

    def unchanged(self) -> bool:
        return not self.changed() and all(arena.guards_intact() for arena in self.arenas.values())


class Outputs:
    """The outputs of a launch, poisoned, each in an arena of its own. `optional` may be left unwritten."""

    def __init__(self, specs: Mapping[str, TensorSpec], device: torch.device | str, *, padded: bool = False) -> None:
        self.arenas = {name: Arena(spec, device, padded=padded) for name, spec in specs.items()}
        self.tensors = {name: arena.tensor for name, arena in self.arenas.items()}
        self.optional = [name for name, spec in specs.items() if spec.optional]

    def poison(self, pattern: str = "nan") -> None:
        for arena in self.arenas.values():
            arena.poison(pattern)

    def guards_intact(self) -> bool:
        return all(arena.guards_intact() for arena in self.arenas.values())

    def left_out(self) -> list[str]:
        """Optional outputs of which nothing was written."""
        return [name for name in self.optional if bool(self.arenas[name].unwritten().all())]


def make(problem: Problem, distribution: str, seed: int, device: torch.device | str, *, padded: bool = False) -> Inputs:
    operator = operators.of(problem)
    sample = operator.inputs(problem, distribution, seed, device)
    return Inputs(operator.input_specs(problem), sample, padded=padded)


def make_outputs(problem: Problem, device: torch.device | str, *, padded: bool = False) -> Outputs:
    return Outputs(operators.of(problem).output_specs(problem), device, padded=padded)
