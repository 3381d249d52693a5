"""The order of tiles that the report reckons with is the kernels'."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from harness.catalog.entries import Tile
from harness.operators.attention.problem import Problem
from reports.facts import filling
from tests.support import children, dealt_tiles
from tests.support.cpu_kernels import launch


@pytest.mark.parametrize(
    ("heads", "seq_q", "seq_kv"),
    [(256, 512, 512), (16, 8192, 8192), (8, 16_384, 16_384), (3, 1000, 1000), (1, 130, 4000), (40, 4096, 300)],
)
def test_tiles_are_dealt_out_as_the_kernels_do_it(heads: int, seq_q: int, seq_kv: int) -> None:
    tile, blocks = Tile(128, 80, 2, 8), 132
    tiles = heads * math.ceil(seq_q / tile.block_m)
    third, heads_in_turn, grid, last = (torch.full((tiles, 2), -1, dtype=torch.int32) for _ in range(4))
    constants = {
        "HEAD_DIM": 256,
        "CAUSAL": 1,
        "BLOCK_M": tile.block_m,
        "BLOCK_N": tile.block_n,
        "STAGES": 2,
        "WARPS": 8,
    }
    said = launch(
        "tile_order",
        [(third, "scratch"), (heads_in_turn, "scratch"), (grid, "out"), (last, "out")],
        (heads, seq_q, seq_kv, blocks),
        **{f"ATTENTION_{name}": value for name, value in constants.items()},
    )
    assert said == ""
    problem = Problem(1, heads, heads, seq_q, seq_kv, 256, "bf16", True)
    for order, dealt in (
        (filling.shortest_third_last, third),
        (filling.head_by_head, heads_in_turn),
        (filling.longest_first, grid),
    ):
        assert order(problem, tile, blocks) == [tuple(pair) for pair in dealt.tolist()]
    in_no_section = replace(problem, head_dim=128)
    assert filling.last_rows_together(in_no_section, tile, blocks) == [tuple(pair) for pair in last.tolist()]


@pytest.mark.parametrize(
    ("heads", "length", "head_dim", "block_m", "head_by_head"),
    [
        (64, 512, 128, 64, True),
        (16, 4096, 128, 64, True),
        (3, 1000, 64, 128, True),
        (5, 16_384, 128, 64, True),
        (8, 1024, 256, 64, True),
        (8, 4096, 256, 128, False),
        (3, 16_384, 256, 128, False),
    ],
)
def test_core_triton_deals_out_tiles_as_the_report_reckons(
    heads: int, length: int, head_dim: int, block_m: int, head_by_head: bool
) -> None:
    """With a causal mask: the last rows together, but in sections in long sequences of head_dim 256."""
    tile, problem = Tile(block_m, 128), Problem.square(1, heads, length, head_dim, causal=True)
    dealt = children.call(dealt_tiles.dealt, problem, tile, head_by_head, environment={"TRITON_INTERPRET": "1"})
    assert dealt == filling.last_rows_together(problem, tile, 132)


def test_core_triton_deals_out_tiles_head_by_head_where_all_are_alike() -> None:
    problem, tile = Problem.square(1, 3, 512, 128), Tile(128, 128)
    dealt = children.call(dealt_tiles.dealt, problem, tile, True, environment={"TRITON_INTERPRET": "1"})
    assert dealt == [(head, q_tile) for head in range(3) for q_tile in reversed(range(4))]


@pytest.mark.parametrize(("causal", "uneven"), [(True, 1.25), (False, 1.05)])
def test_core_tritons_order_is_uneven_where_it_is_dealt_out_in_advance(causal: bool, uneven: float) -> None:
    """As the note on tma_store says: every nth tile of an order that is made for blocks that start when others end."""
    tile, problem, blocks = Tile(64, 128, 1, 4), Problem.square(4, 16, 4096, 128, causal=causal), 3 * 132
    order = filling.last_rows_together(problem, tile, 132) if causal else filling.head_by_head(problem, tile, 132)
    keys = [(q_tile // 2 if causal else 31) + 1 for _, q_tile in order]
    loads = [sum(keys[block::blocks]) for block in range(blocks)]
    assert max(loads) / (sum(loads) / blocks) == pytest.approx(uneven, abs=0.03)
