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

PART_ROWS, PART_KEYS, BLOCKS = 16, 256, 4
"""As in cuda_kernels/attention/key_parts.cuh: rows and keys of the smallest part, blocks for each multiprocessor."""


def parts(batch: int, heads: int, heads_kv: int, seq_q: int, seq_kv: int, on: int) -> int:
    """Into how many parts the keys are cut on a GPU of `on` multiprocessors, whatever the tile."""
    blocks = batch * heads_kv * triton.cdiv(heads // heads_kv * seq_q, PART_ROWS)
    return max(1, min(BLOCKS * on // blocks, triton.cdiv(seq_kv, PART_KEYS)))


@dataclass(frozen=True)
class PackedTwin(Twin):
    """One program for each tile of rows of each head of K and V. With `splits`, for each part of the keys, too: the
    kernel gets `parts`, and a workspace of counters (one a tile) and of what the parts leave."""

    splits: bool = False
    join: Any = None
    """A second kernel, one program for each row of several parts."""

    def specialize(self, problem: Any, strides: Strides | None, tile: Any, arch: str) -> Specialization:
        return self._of(problem.heads_kv, problem.seq_kv, Twin.specialize, problem, strides, tile, arch)

    def launch(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor, lse: torch.Tensor, **options: Any
    ) -> Any:
        first = self._of(k.shape[1], k.shape[2], Twin.launch, q, k, v, o, lse, **options)
        batch, heads, seq_q, head_dim = q.shape
        count = parts(batch, heads, k.shape[1], seq_q, k.shape[2], multiprocessors(q))
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
        count = parts(problem.batch, problem.heads, problem.heads_kv, problem.seq_q, problem.seq_kv, on)
        return 4 * (rows + rows * count * (problem.head_dim + 1)) if count > 1 else 4

    def _of(self, heads_kv: int, seq_kv: int, do: Any, *arguments: Any, **options: Any) -> Any:
        def count(q: torch.Tensor) -> int:
            batch, heads, seq_q, _ = q.shape
            return parts(batch, heads, heads_kv, seq_q, seq_kv, multiprocessors(q)) if self.splits else 1

        def grid(q: torch.Tensor, tile: Any) -> tuple[int, ...]:
            batch, heads, seq_q, _ = q.shape
            return batch * heads_kv * triton.cdiv(heads // heads_kv * seq_q, tile.block_m), count(q)

        def refine(offered: dict[str, Any]) -> dict[str, Any]:
            return self.refine(offered | {"heads_kv": heads_kv, "parts": count(offered["q_ptr"])})

        return do(replace(self, grid=grid, refine=refine), *arguments, **options)
