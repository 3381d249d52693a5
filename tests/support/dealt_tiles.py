"""Where each program of core Triton's flagship works: its order of tiles, asked in the interpreter."""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl

from harness.catalog.entries import Tile
from harness.operators.attention.problem import Problem
from triton_kernels.attention.hopper.flagship import _head_by_head, _sections


@triton.jit
def _deal(
    places, heads_total, q_tiles, seq_kv,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, CAUSAL: tl.constexpr, HEAD_BY_HEAD: tl.constexpr,
):  # fmt: skip
    number = tl.program_id(0)
    if HEAD_BY_HEAD:
        batch_head, q_tile = _head_by_head(number, heads_total, q_tiles, BLOCK_M, CAUSAL)
    else:
        batch_head, q_tile = _sections(number, heads_total, q_tiles, seq_kv, HEAD_DIM)
    tl.store(places + 2 * number, batch_head)
    tl.store(places + 2 * number + 1, q_tile)


def dealt(problem: Problem, tile: Tile, head_by_head: bool) -> list[tuple[int, int]]:
    """(head, tile of queries) by the number of the program."""
    heads, q_tiles = problem.batch * problem.heads, math.ceil(problem.seq_q / tile.block_m)
    places = torch.full((heads * q_tiles, 2), -1, dtype=torch.int32)
    constants = {"HEAD_DIM": problem.head_dim, "BLOCK_M": tile.block_m, "CAUSAL": problem.causal}
    _deal[(heads * q_tiles,)](places, heads, q_tiles, problem.seq_kv, **constants, HEAD_BY_HEAD=head_by_head)
    return [(head, q_tile) for head, q_tile in places.tolist()]
