"""Plumbing of tile_192 and pingpong_192 in Gluon, whose tiles have their columns in two tensors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from triton_kernels.gemm import gluon_tiles as tiles
from triton_kernels.gemm.specialization import block_k, describe


@dataclass(frozen=True)
class Twin(tiles.Twin):
    """A twin with two boxes of B: `b_desc` has as many columns as the largest power of two in the tile's,
    `rest_desc` the other ones. C_BUFFERS is 1 or 2."""

    def arguments(self, tensors: dict[str, torch.Tensor], epilogue: str, tile: Any) -> dict[str, Any]:
        first, step = 1 << (tile.block_n.bit_length() - 1), block_k(tile)
        found = super().arguments(tensors, epilogue, replace(tile, block_n=first))
        rest = describe(tensors["b"], tile.block_n - first, step)
        layout = found["b_desc"].layout
        found["rest_desc"] = TensorDescriptor(rest.base, rest.shape, rest.strides, rest.block_shape, layout)
        left = tiles.SHARED_MEMORY_BYTES - 1024 - 2 * tile.stages * (tile.block_m + tile.block_n) * step
        rows = tile.block_m * (tile.warps // 4 if self.tile_each else 1)  # of a box for each warpgroup
        found["C_BUFFERS"] = 2 if left >= 2 * rows * tiles.ROW_BYTES else 1
        return found

    def offered(self, tensors: dict[str, torch.Tensor], epilogue: str, tile: Any) -> dict[str, Any]:
        return {**super().offered(tensors, epilogue, tile), "rest_desc": None}
