"""Plumbing of the Gluon kernels that multiply matrices: descriptors with a layout, the order of tiles, the epilogue.

Rings of buffers with barriers come from triton_kernels.attention.gluon_warpgroups.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from triton_kernels.gemm import specialization

LAYOUT = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2)
GELU_SCALE = gl.constexpr(-2.3022081987)
"""-2 sqrt(2 / pi) log2(e): GELU's sigmoid is one over one and a power of two."""


@dataclass(frozen=True)
class Twin(specialization.Twin):
    """A `specialization.Twin` whose kernel takes STAGES and GROUPS, the consumer warpgroups. Its descriptors carry the
    layout in shared memory: the 128-byte swizzle, as wgmma reads it. A box of A has one group's rows: all of the tile's
    with `tile_each`, where every group has a tile to itself."""

    tile_each: bool = False

    def arguments(self, tensors: dict[str, torch.Tensor], epilogue: str, tile: Any) -> dict[str, Any]:
        offered = self.offered(tensors, epilogue, tile)
        groups = tile.warps // 4
        for name, rows in (("a", tile.block_m if self.tile_each else tile.block_m // groups), ("b", tile.block_n)):
            plain = specialization.describe(tensors[name], rows, tile)
            offered[f"{name}_desc"] = TensorDescriptor(
                plain.base, plain.shape, plain.strides, plain.block_shape, LAYOUT
            )
        offered |= {"STAGES": tile.stages, "GROUPS": groups}
        return {name: offered[name] for name in self.kernel.arg_names}


def options(tile: Any) -> dict[str, Any]:
    """Compile options of a kernel with roles: its first partition is one warpgroup, whatever the tile."""
    return {**specialization.options(tile), "num_warps": 4, "num_stages": 1}


@gluon.constexpr_function
def accumulator(columns):
    """The register layout of a warpgroup's product."""
    return gl.NVMMADistributedLayout([3, 0], [4, 1], [16, columns, 16])


@gluon.jit
def count(m, n, BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr):
    """The number of tiles of C."""
    return (m + BLOCK_M - 1) // BLOCK_M * ((n + BLOCK_N - 1) // BLOCK_N)


@gluon.jit
def grouped_tile(number, m, n, BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr, GROUP_M: gl.constexpr):
    """The first row and column of the tile that a program takes: groups of GROUP_M rows of tiles, column by column."""
    tiles_m = (m + BLOCK_M - 1) // BLOCK_M
    in_group = GROUP_M * ((n + BLOCK_N - 1) // BLOCK_N)
    first = number // in_group * GROUP_M
    rows = gl.minimum(tiles_m - first, GROUP_M)
    return (first + number % in_group % rows) * BLOCK_M, number % in_group // rows * BLOCK_N


@gluon.jit
def store(sums, c_ptr, c_stride, bias_ptr, row, col, m, n, EVEN: gl.constexpr, EPILOGUE: gl.constexpr):
    """Adds the bias, applies GELU in its tanh form, and writes the sums of the rows and columns from (row, col) on."""
    layout: gl.constexpr = sums.type.layout
    rows = row + gl.arange(0, sums.shape[0], gl.SliceLayout(1, layout))
    cols = col + gl.arange(0, sums.shape[1], gl.SliceLayout(0, layout))
    if EPILOGUE != "plain":
        bias = gl.load(bias_ptr + cols, cols < n, other=0.0)
        sums += bias.to(gl.float32)[None, :]
    if EPILOGUE == "gelu":
        sums = sums / (1.0 + gl.exp2(GELU_SCALE * (sums + 0.044715 * sums * sums * sums)))
    c_ptrs = c_ptr + rows.to(gl.int64)[:, None] * c_stride + cols[None, :]
    inside = (rows < m)[:, None] & (cols < n)[None, :]
    if EVEN:
        gl.store(c_ptrs, sums.to(c_ptr.dtype.element_ty))
    else:
        gl.store(c_ptrs, sums.to(c_ptr.dtype.element_ty), inside)
