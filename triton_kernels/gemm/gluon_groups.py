"""Plumbing of the Gluon kernel that multiplies groups: descriptors, where groups end, stores that end there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, tma
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from triton_kernels.gemm import gluon_tiles, groups, specialization
from triton_kernels.gluon_names import store_async

BILLION = gl.constexpr(2**30)
"""Rows of a ragged descriptor (triton.tools.ragged_tma), and its first coordinate."""


@dataclass(frozen=True)
class Twin(groups.Twin):
    """A `groups.Twin` whose kernel may take STAGES, GROUPS, the consumer warpgroups, and C_BUFFERS, as those of
    `gluon_tiles.Twin`. A box of A or C has the rows of one warpgroup, one of C rows of 128 bytes."""

    def arguments(self, tensors: dict[str, Any], epilogue: str, tile: Any) -> dict[str, Any]:
        consumers, c = tile.warps // 4, tensors["c"]
        rows = tile.block_m // consumers
        offered = self.described(tensors, epilogue, tile, rows, gluon_tiles.ROW_BYTES // c.element_size())
        for name in ("a_desc", "b_desc", "c_desc"):
            plain = offered[name]
            bits, rank = 8 * plain.base.element_size(), len(plain.shape)
            layout = gl.NVMMASharedLayout(swizzle_byte_width=gluon_tiles.ROW_BYTES, element_bitwidth=bits, rank=rank)
            offered[name] = TensorDescriptor(plain.base, plain.shape, plain.strides, plain.block_shape, layout)
        rings = 2 * tile.stages * (tile.block_m + tile.block_n) * specialization.block_k(tile)
        fitting = (gluon_tiles.SHARED_MEMORY_BYTES - 1024 - rings) // (tile.block_m * gluon_tiles.ROW_BYTES)
        offered |= {"STAGES": tile.stages, "GROUPS": consumers, "C_BUFFERS": 4 if fitting >= 4 else min(fitting, 2)}
        return {name: offered[name] for name in self.kernel.arg_names}


@gluon.jit
def buffers(c_desc, NUMBER: gl.constexpr):
    """Allocates shared memory for NUMBER boxes of C."""
    rows: gl.constexpr = c_desc.block_type.shape[2]
    columns: gl.constexpr = c_desc.block_type.shape[3]
    return gl.allocate_shared_memory(c_desc.dtype, [NUMBER, 1, 1, rows, columns], c_desc.layout)


@gluon.jit
def end(offsets_ptr, group, m):
    """The row behind a group's last one."""
    if offsets_ptr is None:
        return m
    else:
        return gl.load(offsets_ptr + group)


@gluon.jit
def store_parts(sums, c_desc, c_smem, begin, rows, row, col, FIRST: gl.constexpr):
    """Writes sums of a warpgroup from (row, col) of a group on by TMA, box by box. The group has `rows` rows, the first
    is row `begin` of C: what lies behind them is not written. Buffers are taken as in `gluon_tiles.store_parts`."""
    columns: gl.constexpr = sums.shape[1]
    if columns == c_desc.block_type.shape[3]:
        C_BUFFERS: gl.constexpr = c_smem.shape[0]
        buffer = c_smem.index(FIRST % C_BUFFERS)
        tma.store_wait(C_BUFFERS - 1)
        buffer.reshape((sums.shape[0], columns)).store(sums.to(c_desc.dtype))
        fence_async_shared()
        store_async(c_desc, [BILLION, begin + rows, BILLION - rows + row, col], buffer)
    else:
        half: gl.constexpr = columns // 2
        left, right = gl.split(gl.permute(gl.reshape(sums, (sums.shape[0], 2, half)), (0, 2, 1)))
        store_parts(left, c_desc, c_smem, begin, rows, row, col, FIRST)
        behind: gl.constexpr = FIRST + half // c_desc.block_type.shape[3]
        store_parts(right, c_desc, c_smem, begin, rows, row, col + half, behind)
