"""Twins whose tiles have rows of all query heads that share a head of K and V, and whose keys may be cut into parts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
import triton

from triton_kernels.attention.specialization import (
    MULTIPROCESSORS_ELSEWHERE,
    Specialization,
    Strides,
    Twin,
    counters,
    multiprocessors,
)

MAX_PARTS, COUNTERS, FEW, START = 64, 1024, 4, 4
"""As in cuda_kernels/attention/key_parts.cuh: most parts of a tile, most tiles that have parts, most parts where the
tiles fill the GPU by themselves, key tiles that could be read in the time in which a block starts and ends."""


def resident(tile: Any, head_dim: int) -> int:
    """Programs that a multiprocessor holds at once, as far as Q and the buffers of K and V decide."""
    fit = 228 * 1024 // (2 * head_dim * (tile.block_m + 2 * tile.stages * tile.block_n) + 1024)
    return max(1, min(fit, 8 // tile.warps))


def parts(tiles: int, key_tiles: int, slots: int) -> int:
    """Into how many parts the keys of each of `tiles` are cut on a GPU that holds `slots` programs at once."""
    count = min(slots // tiles, MAX_PARTS)
    if count < 1:
        count = min(
            range(1, FEW + 1), key=lambda n: triton.cdiv(tiles * n, slots) * (triton.cdiv(key_tiles, n) + START)
        )
    if tiles > COUNTERS:
        count = 1
    return triton.cdiv(key_tiles, triton.cdiv(key_tiles, min(count, key_tiles)))


@dataclass(frozen=True)
class PackedTwin(Twin):
    """One program for each tile of rows of each head of K and V. With `splits`, for each part of the keys, too: the
    kernel gets `parts`, KEY_WARPS (warps with the same 16 rows), AT_ONCE (parts of all rows that fit 64 registers), and
    a workspace of COUNTERS (one a tile), which it leaves zero, and of what the parts leave."""

    splits: bool = False
    join: Any = None
    """A second kernel, one program for each row of several parts."""

    def specialize(self, problem: Any, strides: Strides | None, tile: Any, arch: str) -> Specialization:
        counted = self._counted(problem.heads_kv, problem.seq_kv, tile)
        return Twin.specialize(counted, problem, strides, tile, arch)

    def launch(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor, lse: torch.Tensor, **options: Any
    ) -> Any:
        first = Twin.launch(self._counted(k.shape[1], k.shape[2], options["tile"]), q, k, v, o, lse, **options)
        batch, heads, seq_q, head_dim = q.shape
        count = self._parts(q, k.shape[1], k.shape[2], options["tile"])
        if self.join is not None and count > 1:
            rows = batch * heads * seq_q
            strides = o.stride()[:3]
            self.join[(rows,)](o, lse, counters(options["workspace"]), rows, count, heads, seq_q, *strides, head_dim)
        return first

    def workspace_bytes(self, problem: Any) -> int:
        if not self.splits:
            return 0
        on = MULTIPROCESSORS_ELSEWHERE
        if torch.cuda.is_available():
            on = torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count
        rows = problem.batch * problem.heads * problem.seq_q
        most = min(max(8 * on // (problem.batch * problem.heads_kv), FEW), MAX_PARTS)  # at any tile
        return 4 * (COUNTERS + rows * most * (problem.head_dim + 1))

    def _parts(self, q: torch.Tensor, heads_kv: int, seq_kv: int, tile: Any) -> int:
        if not self.splits:
            return 1
        batch, heads, seq_q, head_dim = q.shape
        tiles = batch * heads_kv * triton.cdiv(heads // heads_kv * seq_q, tile.block_m)
        return parts(tiles, triton.cdiv(seq_kv, tile.block_n), multiprocessors(q) * resident(tile, head_dim))

    def _counted(self, heads_kv: int, seq_kv: int, tile: Any) -> PackedTwin:
        """With the grid and the arguments that depend on the heads and the number of keys."""

        def grid(q: torch.Tensor, tile: Any) -> tuple[int, ...]:
            batch, heads, seq_q, _ = q.shape
            tiles = batch * heads_kv * triton.cdiv(heads // heads_kv * seq_q, tile.block_m)
            return tiles, self._parts(q, heads_kv, seq_kv, tile)

        def refine(offered: dict[str, Any]) -> dict[str, Any]:
            count = self._parts(offered["q_ptr"], heads_kv, seq_kv, tile)
            key_warps = max(1, 16 * tile.warps // tile.block_m)
            at_once = min(max(1, 2048 * tile.warps // (tile.block_m * offered["HEAD_DIM"])), MAX_PARTS)
            more = {"parts": count, "KEY_WARPS": key_warps, "AT_ONCE": at_once}
            return self.refine(offered | {"heads_kv": heads_kv} | more)

        return replace(self, grid=grid, refine=refine)
