"""What C is in fp64, how far from it each element may be, and how far a careful computation in fp32 is.

A limit of an element is what rounding it to the dtype of C may do, and what summing in fp32 may do. The second is an
ulp of fp32 for each group of eight products, of the largest sum on the way to that element: tensor cores cut off what
they add, group by group, and no order of fp32 sums does worse. Nothing else is allowed, so that sums rounded to 16 bits
on the way are found out, and so is a k tail that is left out.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from harness.operators.gemm.problem import Problem
from harness.operators.memory import DTYPES
from harness.operators.precision import ieee_matmul
from harness.operators.protocol import Sample

CHUNK_BYTES = 2**28
"""Largest matrix of fp64 sums at a time; three live at once."""
PREFIXES = 16
"""Parts of k after which a sum on its way is looked at."""
GROUP = 8
"""Products that a tensor core adds before it cuts off."""
USUAL = 4.0
"""A sum on its way is at least so many times the usual size of a random one."""
GELU_CUBIC = 0.044715
GELU_SCALE = math.sqrt(2 / math.pi)
GELU_SLOPE = 1.13
"""The steepest slope of GELU."""
GELU_ERROR = 2.0**-18
"""Relative error of a GELU by approximate instructions."""


@dataclass(frozen=True)
class Expected:
    """What one sample should give; tensors lie on its device."""

    sample: Sample
    c: Tensor
    """fp64 (m, n)."""
    allowed: Tensor
    """Error of fp32 sums, epilogue included: fp32 (m, n)."""
    peak: Tensor
    """The largest sum on the way: fp32 (m, n)."""
    norms: Tensor
    """|a_i| |b_j|, which errors are told in: fp32 (m, n)."""
    yardstick: float
    """The largest error over `norms` of fp32 sums, rounded once."""

    @property
    def nbytes(self) -> int:
        tensors = (*self.sample.tensors.values(), self.c, self.allowed, self.peak, self.norms)
        return sum(tensor.nbytes for tensor in tensors)


def exact(problem: Problem, sample: Sample) -> Expected:
    a, bias = sample.tensors["a"], sample.tensors.get("bias")
    wide = None if bias is None else bias.double()
    c = torch.empty(problem.m, problem.n, dtype=torch.float64, device=a.device)
    allowed, peak, norms = (torch.empty(c.shape, dtype=torch.float32, device=a.device) for _ in range(3))
    ulp, worst = torch.finfo(torch.float32).eps, 0.0
    for part, b in _products(problem, sample):
        norms[part] = a[part].float().norm(dim=1)[:, None] * b.float().norm(dim=1)
        total = torch.zeros(len(a[part]), problem.n, dtype=torch.float64, device=a.device)
        largest = norms[part].double() * (USUAL / math.sqrt(problem.k))
        for columns in torch.arange(problem.k, device=a.device).tensor_split(min(PREFIXES, problem.k // GROUP)):
            block = slice(int(columns[0]), int(columns[-1]) + 1)
            total += a[part, block].double() @ b[:, block].double().T
            largest = torch.maximum(largest, total.abs())
        off = (problem.k / GROUP + GROUP) * ulp * largest
        if wide is not None:
            off += ulp * (total.abs() + wide.abs())
        c[part] = finish(problem, total, wide)
        if problem.epilogue == "gelu":
            off = GELU_SLOPE * off + GELU_ERROR * c[part].abs() + torch.finfo(torch.float32).tiny
        allowed[part], peak[part] = off.float(), largest.float()
        careful = _careful(problem, a[part], b, bias)
        worst = max(worst, ((careful - c[part]).abs() / norms[part]).nan_to_num(0.0).max().item())
    return Expected(sample, c, allowed, peak, norms, worst)


def _products(problem: Problem, sample: Sample) -> Iterator[tuple[slice, Tensor]]:
    """Rows and the b that they are multiplied by: those of a group, CHUNK_BYTES of sums at a time."""
    b, offsets = sample.tensors["b"], sample.tensors.get("offsets")
    begin, most = 0, max(1, CHUNK_BYTES // (8 * problem.n))
    for end, own in ((problem.m, b),) if offsets is None else zip(offsets.tolist(), b, strict=True):
        for start in range(begin, end, most):
            yield slice(start, min(start + most, end)), own
        begin = end


def finish(problem: Problem, total: Tensor, bias: Tensor | None) -> Tensor:
    """The epilogue of sums, in their own precision: bias, then GELU in its tanh form."""
    if bias is not None:
        total = total + bias
    if problem.epilogue == "gelu":
        total = total * torch.sigmoid(2 * GELU_SCALE * (total + GELU_CUBIC * total**3))
    return total


def _careful(problem: Problem, a: Tensor, b: Tensor, bias: Tensor | None) -> Tensor:
    """fp32 sums and epilogue, rounded once to the dtype of C; returned in fp64."""
    with ieee_matmul():
        total = a.float() @ b.float().T
    finished = finish(problem, total, None if bias is None else bias.float())
    return finished.to(DTYPES[problem.c_dtype]).double()
