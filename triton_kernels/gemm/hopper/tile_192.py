"""Tiles of 192 columns, or 320: the last wave is fuller at some sizes.

Builds on square_waves; changes the tile. General: any m, and any n and k that are multiples of 8.

Tensors have powers of two for sizes. So a tile has the sums of its first 128 or 256 columns and those of the other 64
in two tensors, and a step has two products with one A. Loads, stores and the order of tiles are those of square_waves.
The loop over tiles is not flattened: ptxas would make every product wait for the one before, because the flattened
loop moves sums of one tensor while products of the other run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl

from triton_kernels.gemm.epilogue import finish, grouped_tile, store_parts
from triton_kernels.gemm.specialization import Twin, block_k, describe, options, persistent_tiles

GROUP_ROWS = tl.constexpr(2048)


@triton.jit
def tile_192(
    a_desc, b_desc, rest_desc, c_desc, bias_ptr, m, n, k,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, EPILOGUE: tl.constexpr,
):  # fmt: skip
    FIRST: tl.constexpr = b_desc.block_shape[0]
    REST: tl.constexpr = rest_desc.block_shape[0]
    tiles = tl.cdiv(m, BLOCK_M) * tl.cdiv(n, BLOCK_N)
    for number in range(tl.program_id(0), tiles, tl.num_programs(0)):
        row, col = grouped_tile(number, m, n, BLOCK_M, BLOCK_N, GROUP_ROWS // BLOCK_M)
        sums = tl.zeros((BLOCK_M, FIRST), tl.float32)
        rest = tl.zeros((BLOCK_M, REST), tl.float32)
        for k_start in range(0, k, BLOCK_K):
            a = a_desc.load([row, k_start])
            b = b_desc.load([col, k_start])
            more = rest_desc.load([col + FIRST, k_start])
            sums = tl.dot(a, b.T, sums)
            rest = tl.dot(a, more.T, rest)
        sums = finish(sums, bias_ptr, col, n, FIRST, EPILOGUE)
        store_parts(sums, c_desc, row, col)
        rest = finish(rest, bias_ptr, col + FIRST, n, REST, EPILOGUE)
        store_parts(rest, c_desc, row, col + FIRST)


@dataclass(frozen=True)
class _Twin(Twin):
    """A twin with two boxes of B: of as many columns as the largest power of two in the tile's, and of the other ones.
    A box of C has as many columns as the second."""

    def arguments(self, tensors: dict[str, torch.Tensor], epilogue: str, tile: Any) -> dict[str, Any]:
        step, first = block_k(tile), 1 << (tile.block_n.bit_length() - 1)
        offered = {
            **self.offered(tensors, epilogue, tile),
            "a_desc": describe(tensors["a"], tile.block_m, step),
            "b_desc": describe(tensors["b"], first, step),
            "rest_desc": describe(tensors["b"], tile.block_n - first, step),
            "c_desc": describe(tensors["c"], tile.block_m, tile.block_n - first),
        }
        return {name: offered[name] for name in self.kernel.arg_names}


twin = _Twin(tile_192, options, grid=persistent_tiles)
