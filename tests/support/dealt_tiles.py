"""Where each program of core Triton's flagship works: its order of tiles, asked in the interpreter."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from triton_kernels.hopper.flagship import _head_by_head


@triton.jit
def _deal(places, heads_total, q_tiles, BLOCK_M: tl.constexpr, CAUSAL: tl.constexpr):
    number = tl.program_id(0)
    batch_head, q_tile = _head_by_head(number, heads_total, q_tiles, BLOCK_M, CAUSAL)
    tl.store(places + 2 * number, batch_head)
    tl.store(places + 2 * number + 1, q_tile)


def dealt(heads: int, q_tiles: int, block_m: int, causal: bool) -> list[tuple[int, int]]:
    """(head, tile of queries) by the number of the program."""
    places = torch.full((heads * q_tiles, 2), -1, dtype=torch.int32)
    _deal[(heads * q_tiles,)](places, heads, q_tiles, BLOCK_M=block_m, CAUSAL=causal)
    return [(head, q_tile) for head, q_tile in places.tolist()]
