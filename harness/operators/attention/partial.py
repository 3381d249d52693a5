"""An answer without log-sum-exp is judged like a whole one: what is missing is filled in with the truth."""

from __future__ import annotations

from collections.abc import Callable

import torch

from harness.operators.attention.inputs import POISON
from harness.operators.attention.reference import truth


class Completed:
    """A launch. Where it leaves lse unwritten, the exact one is filled in, and `without_lse` says so."""

    def __init__(self, launch: Callable[..., object]) -> None:
        self._launch = launch
        self._kept: tuple[object, torch.Tensor] | None = None
        self.without_lse = False

    def __call__(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        o: torch.Tensor,
        lse: torch.Tensor,
        *,
        scale: float,
        causal: bool,
    ) -> None:
        self._launch(q, k, v, o, lse, scale=scale, causal=causal)
        if is_unwritten(lse):
            self.without_lse = True
            inputs = (q.data_ptr(), q._version, k._version, scale, causal)
            if self._kept is None or self._kept[0] != inputs:
                self._kept = inputs, truth(q, k, v, scale=scale, causal=causal)[1].float()
            lse.copy_(self._kept[1])


def is_unwritten(lse: torch.Tensor) -> bool:
    """Whether every element still holds one of the patterns of POISON. lse: fp32."""
    bits = lse.view(torch.int32)
    return any(bool((bits == patterns[4]).all()) for patterns in POISON.values())
