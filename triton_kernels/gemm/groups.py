"""From groups of rows, each with a b of its own, to the arguments of a Triton kernel; which tile is whose."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
import triton
import triton.language as tl
from triton.compiler import CompiledKernel
from triton.tools.ragged_tma import create_ragged_descriptor
from triton.tools.tensor_descriptor import TensorDescriptor

from triton_kernels.attention.specialization import Specialization
from triton_kernels.gemm import specialization
from triton_kernels.gemm.epilogue import grouped_tile


def programs(a: torch.Tensor, b: torch.Tensor, tile: Any) -> tuple[int, ...]:
    """One per multiprocessor: the host does not know how many tiles groups have."""
    return (specialization.multiprocessors(a.device),)


@dataclass(frozen=True)
class Twin(specialization.Twin):
    """A `specialization.Twin` that takes b (groups, n, k) and `offsets`, int32 (groups,): behind which row of a and c
    each group ends. One product is one group, without `offsets`.

    Its kernel may ask for `offsets_ptr`, `groups` and GROUPS, the next power of two. `b_desc` has the group for its
    first dimension, and `c_desc` is ragged: `triton.tools.ragged_tma` stores rows of one group through it."""

    groups: int = 1
    """Of the problem that is compiled for a GPU that is not here."""

    def specialize(self, problem: Any, strides: Any, tile: Any, arch: str) -> Specialization:
        """As the parent's. A problem that comes from another process says `groups` only where it has several."""
        return super(Twin, replace(self, groups=getattr(problem, "groups", 1))).specialize(problem, strides, tile, arch)

    def launch(  # type: ignore[override]
        self,
        a: torch.Tensor,
        b: torch.Tensor,
        c: torch.Tensor,
        bias: torch.Tensor | None = None,
        offsets: torch.Tensor | None = None,
        *,
        epilogue: str = "plain",
        tile: Any,
        workspace: torch.Tensor | None = None,
    ) -> CompiledKernel | None:
        """As the parent's."""
        tensors = {"a": a, "b": b, "c": c, "bias": bias, "offsets": offsets}
        return self.kernel[self.grid(a, b, tile)](**self.arguments(tensors, epilogue, tile), **self.options(tile))

    def arguments(self, tensors: dict[str, Any], epilogue: str, tile: Any) -> dict[str, Any]:
        offered = self.described(tensors, epilogue, tile, tile.block_m, specialization.part_n(tensors["c"], tile))
        return {name: offered[name] for name in self.kernel.arg_names}

    def described(self, tensors: dict[str, Any], epilogue: str, tile: Any, rows: int, columns: int) -> dict[str, Any]:
        """What a kernel may ask for. Boxes of A have so many rows, as have those of C, of so many columns."""
        a, b, c, offsets = (tensors.get(name) for name in ("a", "b", "c", "offsets"))
        if self.groups > 1:
            b = b.expand(self.groups, *b.shape).contiguous()
            offsets = torch.empty(self.groups, dtype=torch.int32, device=b.device)
        elif b.dim() == 2:
            b = b[None]
        step, groups = specialization.block_k(tile), b.shape[0]
        offered = self.offered({**tensors, "b": b[0]}, epilogue, tile)
        offered |= {"offsets_ptr": offsets, "groups": groups, "GROUPS": triton.next_power_of_2(groups)}
        offered["a_desc"] = specialization.describe(a, rows, step)
        offered["b_desc"] = TensorDescriptor(b, list(b.shape), list(b.stride()), [1, tile.block_n, step])
        offered["c_desc"] = create_ragged_descriptor(c, [rows, columns])
        return offered


@triton.jit
def ends(offsets_ptr, groups, m, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUPS: tl.constexpr):
    """For each group the row behind its last one, and the number behind that of its last tile. Tiles are numbered group
    by group; what lies past the groups is empty."""
    group = tl.arange(0, GROUPS)
    if offsets_ptr is None:
        end = m + group * 0
        rows = tl.where(group == 0, m, 0)
    else:
        end = tl.load(offsets_ptr + group, group < groups, other=m)
        rows = end - tl.load(offsets_ptr + group - 1, (group > 0) & (group < groups), other=0)
        rows = tl.where(group < groups, rows, 0)
    return end, tl.cumsum(tl.cdiv(rows, BLOCK_M) * tl.cdiv(n, BLOCK_N), 0)


@triton.jit
def find(number, end, last, m, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP_M: tl.constexpr):
    """The tile of a number: its group, the rows where that begins and ends, and the tile's first row and column."""
    before = last <= number
    group = tl.sum(before.to(tl.int32), 0)
    first = tl.max(tl.where(before, last, 0), 0)
    begin = tl.max(tl.where(before, end, 0), 0)
    behind = tl.min(tl.where(before, m, end), 0)
    row, col = grouped_tile(number - first, behind - begin, n, BLOCK_M, BLOCK_N, GROUP_M)
    return group, begin, behind, row, col
