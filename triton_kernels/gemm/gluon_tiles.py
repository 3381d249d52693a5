"""Plumbing of the Gluon kernels that multiply matrices: descriptors with a layout, the order of tiles, the epilogue.

Rings of buffers with barriers come from triton_kernels.attention.gluon_warpgroups.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, tma
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from triton_kernels.gemm import specialization
from triton_kernels.gluon_names import store_async

ROW_BYTES = 128
"""Bytes of a row of a box: those of the swizzle."""
SHARED_MEMORY_BYTES = 227 * 1024
"""Bytes of shared memory that a block can request on compute capability 9.0."""
GELU_SCALE = gl.constexpr(-2.3022081987)
"""-2 sqrt(2 / pi) log2(e): GELU's sigmoid is one over one and a power of two."""


@dataclass(frozen=True)
class Twin(specialization.Twin):
    """A `specialization.Twin` whose kernel may take STAGES, GROUPS, the consumer warpgroups, and C_BUFFERS, the boxes
    of C that fit for each of these beside the rings of A and B: 1, 2 or 4.

    Its descriptors carry the layout in shared memory: the 128-byte swizzle, as wgmma reads it. A box of A has one
    group's rows: all of the tile's with `tile_each`, where every group has a tile to itself. A box of C has as many
    rows, of 128 bytes."""

    tile_each: bool = False

    def arguments(self, tensors: dict[str, torch.Tensor], epilogue: str, tile: Any) -> dict[str, Any]:
        offered = self.offered(tensors, epilogue, tile)
        groups, step = tile.warps // 4, specialization.block_k(tile)
        rows = tile.block_m if self.tile_each else tile.block_m // groups
        part_n = ROW_BYTES // tensors["c"].element_size()
        for name, box in {"a": (rows, step), "b": (tile.block_n, step), "c": (rows, part_n)}.items():
            plain, bits = specialization.describe(tensors[name], *box), 8 * tensors[name].element_size()
            layout = gl.NVMMASharedLayout(swizzle_byte_width=ROW_BYTES, element_bitwidth=bits, rank=2)
            offered[f"{name}_desc"] = TensorDescriptor(
                plain.base, plain.shape, plain.strides, plain.block_shape, layout
            )
        left = SHARED_MEMORY_BYTES - 1024 - 2 * tile.stages * (tile.block_m + tile.block_n) * step
        fitting = left // (groups * rows * ROW_BYTES)
        offered |= {"STAGES": tile.stages, "GROUPS": groups, "C_BUFFERS": 4 if fitting >= 4 else min(fitting, 2)}
        return {name: offered[name] for name in self.kernel.arg_names}


def options(tile: Any) -> dict[str, Any]:
    """Compile options of a kernel with roles: its first partition is one warpgroup, whatever the tile."""
    return {**specialization.options(tile), "num_warps": 4, "num_stages": 1}


@gluon.constexpr_function
def accumulator(columns):
    """The register layout of a warpgroup's product."""
    return gl.NVMMADistributedLayout([3, 0], [4, 1], [16, columns, 16])


@gluon.jit
def buffers(desc, NUMBER: gl.constexpr):
    """Allocates shared memory for NUMBER boxes of a descriptor."""
    rows: gl.constexpr = desc.block_type.shape[0]
    columns: gl.constexpr = desc.block_type.shape[1]
    return gl.allocate_shared_memory(desc.dtype, [NUMBER, rows, columns], desc.layout)


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
def finish(sums, bias_ptr, col, n, EPILOGUE: gl.constexpr):
    """Adds the bias of the columns from `col` on, and applies GELU in its tanh form."""
    if EPILOGUE != "plain":
        cols = col + gl.arange(0, sums.shape[1], gl.SliceLayout(0, sums.type.layout))
        bias = gl.load(bias_ptr + cols, cols < n, other=0.0)
        sums += bias.to(gl.float32)[None, :]
    if EPILOGUE == "gelu":
        sums = sums / (1.0 + gl.exp2(GELU_SCALE * (sums + 0.044715 * sums * sums * sums)))
    return sums


@gluon.jit
def store(sums, c_ptr, c_stride, bias_ptr, row, col, m, n, EVEN: gl.constexpr, EPILOGUE: gl.constexpr):
    """Finishes the sums and writes them from (row, col) on."""
    sums = finish(sums, bias_ptr, col, n, EPILOGUE)
    layout: gl.constexpr = sums.type.layout
    rows = row + gl.arange(0, sums.shape[0], gl.SliceLayout(1, layout))
    cols = col + gl.arange(0, sums.shape[1], gl.SliceLayout(0, layout))
    c_ptrs = c_ptr + rows.to(gl.int64)[:, None] * c_stride + cols[None, :]
    inside = (rows < m)[:, None] & (cols < n)[None, :]
    if EVEN:
        gl.store(c_ptrs, sums.to(c_ptr.dtype.element_ty))
    else:
        gl.store(c_ptrs, sums.to(c_ptr.dtype.element_ty), inside)


@gluon.jit
def store_parts(sums, c_desc, c_smem, row, col, FIRST: gl.constexpr):
    """Writes sums of a warpgroup from (row, col) on by TMA, box by box. Boxes take the buffers in turn; a box goes to
    its buffer once TMA has read what that held. FIRST: the number of the first box among those of the tile."""
    columns: gl.constexpr = sums.shape[1]
    if columns == c_desc.block_type.shape[1]:
        C_BUFFERS: gl.constexpr = c_smem.shape[0]
        buffer = c_smem.index(FIRST % C_BUFFERS)
        tma.store_wait(C_BUFFERS - 1)
        buffer.store(sums.to(c_desc.dtype))
        fence_async_shared()
        store_async(c_desc, [row, col], buffer)
    else:
        half: gl.constexpr = columns // 2
        left, right = gl.split(gl.permute(gl.reshape(sums, (sums.shape[0], 2, half)), (0, 2, 1)))
        store_parts(left, c_desc, c_smem, row, col, FIRST)
        store_parts(right, c_desc, c_smem, row, col + half, FIRST + half // c_desc.block_type.shape[1])
