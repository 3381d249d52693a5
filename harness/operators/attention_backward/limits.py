"""Why a backend declines a cell: the limits that several techniques share. Standard library only."""

from __future__ import annotations

from harness.catalog.entries import Limit

HEAD_DIM = Limit("*", "head_dim must be 64 or 128", lambda problem, tile: problem.head_dim not in (64, 128))
RAGGED = Limit(
    "*",
    "lengths must be multiples of the tile (a rung marked general takes any length)",
    lambda problem, tile: bool(problem.seq_q % tile.block_m or problem.seq_kv % tile.block_n),
)
POWER_OF_TWO = Limit(
    "triton",
    "Triton's tensors have powers of two for sizes: block_m and block_n must be such",
    lambda problem, tile: bool(tile.block_m & tile.block_m - 1 or tile.block_n & tile.block_n - 1),
)
TILE_ROWS = Limit(
    "*",
    "scratch memory has room for tiles of up to 128 queries: block_m must be at most 128",
    lambda problem, tile: tile.block_m > 128,
)
