"""The same inputs for every backend: seeded values of a, b and the bias."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from harness.operators.gemm.arguments import input_specs, scalars
from harness.operators.gemm.problem import Problem
from harness.operators.memory import DTYPES
from harness.operators.protocol import Sample

CPU_LIMIT = 2**24
"""Elements up to which values are drawn on the CPU, so that every device gets the same ones."""
LARGEST_FP16 = 8192.0
"""Standard deviation of the largest sums, so that fp16 holds them."""
Draw = Callable[[str, Tensor], Tensor]
"""(name, values from N(0, 1)) -> values of that tensor. They may be changed in place."""


def _normal(name: str, values: Tensor) -> Tensor:
    return values


def _shifted(name: str, values: Tensor) -> Tensor:
    """N(0, 1) + 0.5: sums keep away from zero and grow with k."""
    return values.add_(0.5)


def _positive(name: str, values: Tensor) -> Tensor:
    """|N(0, 1)|: no sum gets smaller on its way, so that what an accumulator cuts off adds up."""
    return values.abs_()


def _outliers(name: str, values: Tensor) -> Tensor:
    """N(0, 1), and ten times that in every 997th element: the activations of large models look like that."""
    values.view(-1)[::997] *= 10.0
    return values


def _huge_row(name: str, values: Tensor) -> Tensor:
    """N(0, 1) with one row of a as large as the dtype allows: an error is judged beside its own row and column."""
    if name == "a":
        values[values.shape[0] // 2] *= min(1024.0, LARGEST_FP16 / math.sqrt(values.shape[1]))
    return values


def _cancellation(name: str, values: Tensor) -> Tensor:
    """The second half of k takes away what the first half gave, but for a 32nd: a sum rounded to 16 bits on the way
    keeps the error of what is gone."""
    half = values.shape[1] // 2
    second = values[:, half : 2 * half]
    second.mul_(1 / 32 if name == "b" else 0.0).add_(values[:, :half], alpha=-1.0 if name == "b" else 1.0)
    return values


DISTRIBUTIONS: dict[str, Draw] = {
    "normal": _normal,
    "shifted": _shifted,
    "positive": _positive,
    "outliers": _outliers,
    "huge_row": _huge_row,
    "cancellation": _cancellation,
}
BEYOND_FP16 = {"outliers": {"a": 2.0**20, "b": 2.0**-20}}
"""Factors in bf16. Products stay what they are, but fp16 holds no factor: a kernel that computes bf16 in fp16 is found
out."""


def sample(problem: Problem, distribution: str, seed: int, device: torch.device | str, *, peer: bool = False) -> Sample:
    """Draws the inputs in the problem's dtype, contiguous. With GELU a is smaller by a power of two, so that sums are
    about 1, where the function bends. The sizes of groups follow from seed and distribution. Raises ValueError for an
    unknown distribution."""
    if distribution not in DISTRIBUTIONS:
        raise ValueError(f"distribution: got {distribution!r}, expected one of {', '.join(DISTRIBUTIONS)}")
    factors = dict(BEYOND_FP16.get(distribution, {})) if problem.dtype == "bf16" else {}
    if problem.epilogue == "gelu":
        factors["a"] = factors.get("a", 1.0) * 2.0 ** -round(math.log2(problem.k) / 2)
    tensors = {}
    for number, (name, spec) in enumerate(input_specs(problem).items()):
        if name == "offsets":
            own = len(DISTRIBUTIONS) * seed + list(DISTRIBUTIONS).index(distribution)
            tensors[name] = offsets(problem, own).to(device)
            continue
        generator = torch.Generator("cpu" if math.prod(spec.shape) <= CPU_LIMIT else device)
        generator.manual_seed(3 * seed + number)
        values = torch.randn(spec.shape, generator=generator, device=generator.device)
        if name != "bias":
            rows = values.view(-1, spec.shape[-1])
            values = DISTRIBUTIONS[distribution](name, rows).view(spec.shape) * factors.get(name, 1.0)
        tensors[name] = values.to(DTYPES[problem.dtype]).to(device)
    return Sample(distribution, seed, tensors, scalars(problem))


def offsets(problem: Problem, seed: int) -> Tensor:
    """Where each group's rows end: int32 (groups,), on the CPU. The load of experts is skewed: rows are drawn one by
    one, and the group of rank r gets 1 / r of what the first one gets (Zipf's law), one row at least. The last ranks
    get none, and the order of the ranks is random."""
    generator = torch.Generator().manual_seed(seed)
    busy = problem.busy_groups
    shares = 1 / torch.arange(1.0, busy + 1)
    drawn = torch.multinomial(shares, problem.m - busy, replacement=True, generator=generator)
    rows = torch.zeros(problem.groups, dtype=torch.int64)
    rows[:busy] = 1 + drawn.bincount(minlength=busy)
    return rows[torch.randperm(problem.groups, generator=generator)].cumsum(0).int()
