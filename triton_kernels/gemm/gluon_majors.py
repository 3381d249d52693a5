"""Plumbing of either_major in Gluon, whose descriptors have a layout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from triton_kernels.gemm import majors
from triton_kernels.gemm.gluon_tiles import ROW_BYTES


@dataclass(frozen=True)
class Twin(majors.Twin):
    """A `majors.Twin` whose kernel gets STAGES and GROUPS, the consumer warpgroups. A box of A has one group's rows;
    boxes have the 128-byte swizzle."""

    def offered(self, tensors: dict[str, torch.Tensor], epilogue: str, tile: Any) -> dict[str, Any]:
        return {**super().offered(tensors, epilogue, tile), "STAGES": tile.stages, "GROUPS": tile.warps // 4}

    def rows(self, tile: Any) -> int:
        return tile.block_m // (tile.warps // 4)

    def describe(self, tensor: torch.Tensor, rows: int, columns: int) -> Any:
        plain, bits = super().describe(tensor, rows, columns), 8 * tensor.element_size()
        layout = gl.NVMMASharedLayout(swizzle_byte_width=ROW_BYTES, element_bitwidth=bits, rank=2)
        return TensorDescriptor(plain.base, plain.shape, plain.strides, plain.block_shape, layout)
