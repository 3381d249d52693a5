"""The smallest grid that needs no more waves than one program per multiprocessor."""

from __future__ import annotations

from typing import Any

import torch
import triton

from triton_kernels.gemm.specialization import persistent_tiles, tiles


def level_waves(a: torch.Tensor, b: torch.Tensor, tile: Any) -> tuple[int, ...]:
    """The fewest programs that need no more waves than persistent_tiles: 128 at 4096 and 8192 cubed on an H100."""
    (count,), (programs,) = tiles(a, b, tile), persistent_tiles(a, b, tile)
    return (triton.cdiv(count, triton.cdiv(count, programs)),)
