"""Plumbing of either_major: descriptors of A and B in the order in which their dimensions lie in memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

from triton_kernels.attention.specialization import Specialization
from triton_kernels.gemm import specialization


@dataclass(frozen=True)
class Twin(specialization.Twin):
    """A `specialization.Twin` that takes `a` with m contiguous and `b` with n contiguous as well.

    Its kernel gets M_CONTIGUOUS and N_CONTIGUOUS. Boxes of `a_desc` then have BLOCK_K rows of k and block_m elements of
    m, those of `b_desc` as many rows and block_n elements of n."""

    contiguous: str = "kk"
    """The contiguous dimensions of `a` and `b` where `specialize` compiles for tensors without memory."""

    def specialize(self, problem: Any, strides: Any, tile: Any, arch: str) -> Specialization:
        """As the parent's. A problem from another process has no field `contiguous` if it is k in both."""
        own = replace(self, contiguous=getattr(problem, "contiguous", "kk"))
        return super(Twin, own).specialize(problem, strides, tile, arch)

    def arguments(self, tensors: dict[str, torch.Tensor], epilogue: str, tile: Any) -> dict[str, Any]:
        a, b = as_stored(tensors, self.contiguous)
        offered, step = self.offered(tensors, epilogue, tile), specialization.block_k(tile)
        for name, tensor, size in (("a", a, self.rows(tile)), ("b", b, tile.block_n)):
            box = (size, step) if tensor is tensors[name] else (step, size)
            offered[f"{name}_desc"] = self.describe(tensor, *box)
        offered |= {"M_CONTIGUOUS": a is not tensors["a"], "N_CONTIGUOUS": b is not tensors["b"]}
        return {name: offered[name] for name in self.kernel.arg_names}

    def rows(self, tile: Any) -> int:
        """Rows of A in a box."""
        return tile.block_m

    def describe(self, tensor: torch.Tensor, rows: int, columns: int) -> Any:
        return specialization.describe(tensor, rows, columns)


def as_stored(tensors: dict[str, torch.Tensor], contiguous: str) -> list[torch.Tensor]:
    """`a` and `b`, transposed where k is not their contiguous dimension. Tensors without memory are laid out anew, as
    `contiguous` says."""
    stored = []
    for tensor, dim in zip((tensors["a"], tensors["b"]), contiguous, strict=True):
        if tensor.is_meta and dim != "k":
            stored.append(tensor.T.contiguous())
        else:
            stored.append(tensor if tensor.stride(1) == 1 else tensor.T)
    return stored
