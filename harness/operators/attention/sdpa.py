"""The flagship as PyTorch's own: an implementation of the flash backend of scaled_dot_product_attention.

torch.nn.attention.register_flash_attention_impl (torch 2.13) names it, activate_flash_attention_impl puts it in place,
restore_flash_attention_impl takes it away again.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from harness.operators.attention.api import flash_attention

NAME = "twinkernels"


class Handle:
    """Keeps the override alive until torch asks to take it away."""

    def __init__(self) -> None:
        self._library: Any = torch.library.Library("aten", "IMPL", "CUDA")
        self._library.impl("_scaled_dot_product_flash_attention", scaled_dot_product, "CUDA")

    def remove(self) -> None:
        self._library = None


def register_flash_attention() -> str:
    """Offers the flagship to PyTorch (2.13 or newer) as an implementation of scaled_dot_product_attention's flash
    backend, and returns its name there: torch.nn.attention.activate_flash_attention_impl("twinkernels") puts it in
    place, restore_flash_attention_impl() takes it away.

    It does what `flash_attention` does, forward only. A call with dropout, with a gradient to come, or causal with
    lengths that differ (SDPA aligns its mask top left) raises NotImplementedError. Raises RuntimeError where torch has
    no registry for it.
    """
    from torch.nn import attention

    if not hasattr(attention, "register_flash_attention_impl"):
        raise RuntimeError(
            f"torch: got {torch.__version__}, which takes no implementation of flash attention; expected 2.13 or "
            "newer, or call harness.flash_attention itself"
        )
    attention.register_flash_attention_impl(NAME, register_fn=Handle)
    return NAME


def scaled_dot_product(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    scale: float | None = None,
) -> tuple[Tensor, Tensor, None, None, int, int, Tensor, Tensor, Tensor]:
    """aten::_scaled_dot_product_flash_attention: o and lse, then what a backward pass and dropout would need, empty.

    Raises NotImplementedError for what no kernel here does, and what harness.flash_attention raises.
    """
    seq_q, seq_kv = query.shape[2], key.shape[2]
    needs_gradient = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (query, key, value))
    for refused, got, expected in (
        (dropout_p != 0, f"dropout_p: got {dropout_p}", "0.0"),
        (return_debug_mask, "return_debug_mask: got True", "False"),
        (needs_gradient, "requires_grad: got True", "False or torch.no_grad() (forward only)"),
        (
            is_causal and seq_q != seq_kv,
            f"is_causal: got True with {seq_q} queries and {seq_kv} keys",
            "equal lengths (SDPA aligns its mask top left, these kernels bottom right)",
        ),
    ):
        if refused:
            raise NotImplementedError(
                f"{NAME}: {got}, expected {expected}; torch.nn.attention.restore_flash_attention_impl() takes "
                "PyTorch's own again"
            )
    o, lse = flash_attention(query, key, value, causal=is_causal, scale=scale)
    seed = torch.empty(2, dtype=torch.uint64, device=query.device)  # of no dropout: nobody reads it
    return o, lse, None, None, seq_q, seq_kv, seed, seed.new_empty(()), query.new_empty(0)
