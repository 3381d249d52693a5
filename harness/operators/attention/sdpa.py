"""The flagship as PyTorch's own: an implementation of the flash backend of scaled_dot_product_attention.

torch.nn.attention.register_flash_attention_impl (torch 2.13) names it, activate_flash_attention_impl puts it in place,
restore_flash_attention_impl takes it away again.
"""

from typing import Any

import torch
from torch import Tensor, library

from harness.operators.attention.api import flash_attention
from harness.operators.attention_backward import api as backward

NAME = "twinkernels"


class Handle:
    """Keeps the overrides alive until torch asks to take them away."""

    def __init__(self, device: str = "CUDA") -> None:
        self._library: Any = library.Library("aten", "IMPL", device)
        self._library.impl("_scaled_dot_product_flash_attention", scaled_dot_product, device)
        self._library.impl("_scaled_dot_product_flash_attention_backward", scaled_dot_product_backward, device)

    def remove(self) -> None:
        self._library = None


def register_flash_attention() -> str:
    """Offers the flagship to PyTorch (2.13 or newer) as an implementation of scaled_dot_product_attention's flash
    backend, and returns its name there: torch.nn.attention.activate_flash_attention_impl("twinkernels") puts it in
    place, restore_flash_attention_impl() takes it away.

    It does what `flash_attention` does, in both directions, also where torch.compile has put it into its own graphs.
    Bits of gradients repeat under torch.use_deterministic_algorithms(True). A call with dropout, or causal with lengths
    that differ (SDPA aligns its mask top left), raises NotImplementedError. Raises RuntimeError where torch has no
    registry for it.
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
    """aten::_scaled_dot_product_flash_attention: o and lse, then what dropout and packed sequences would need, empty.

    Raises NotImplementedError for what no kernel here does, and what harness.flash_attention raises.
    """
    seq_q, seq_kv = query.shape[2], key.shape[2]
    _refuse(dropout_p, is_causal, seq_q, seq_kv)
    if return_debug_mask:
        raise _no_kernel("return_debug_mask: got True", "False")
    if torch.is_grad_enabled() and backward.is_asked_for(query, key, value):
        backward.check_supported(query, key, is_causal, scale, torch.are_deterministic_algorithms_enabled())
    with torch.no_grad():  # aten's own formula comes to the function below
        o, lse = flash_attention(query, key, value, causal=is_causal, scale=scale)
    seed = torch.empty(2, dtype=torch.uint64, device=query.device)  # of no dropout: nobody reads it
    return o, lse, None, None, seq_q, seq_kv, seed, seed.new_empty(()), query.new_empty(0)


def scaled_dot_product_backward(
    grad_out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    logsumexp: Tensor,
    cum_seq_q: Tensor | None,
    cum_seq_k: Tensor | None,
    max_q: int,
    max_k: int,
    dropout_p: float,
    is_causal: bool,
    philox_seed: Tensor | None,
    philox_offset: Tensor | None,
    *,
    scale: float | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """aten::_scaled_dot_product_flash_attention_backward: the gradients with respect to query, key and value. What it
    raises: as above."""
    _refuse(dropout_p, is_causal, query.shape[2], key.shape[2])
    steady = torch.are_deterministic_algorithms_enabled()
    with torch.no_grad():
        return backward.gradients(grad_out, query, key, value, out, logsumexp, is_causal, scale, steady)


def _refuse(dropout_p: float, is_causal: bool, seq_q: int, seq_kv: int) -> None:
    if dropout_p != 0:
        raise _no_kernel(f"dropout_p: got {dropout_p}", "0.0")
    if is_causal and seq_q != seq_kv:
        aligned = "equal lengths (SDPA aligns its mask top left, these kernels bottom right)"
        raise _no_kernel(f"is_causal: got True with {seq_q} queries and {seq_kv} keys", aligned)


def _no_kernel(got: str, expected: str) -> NotImplementedError:
    return NotImplementedError(
        f"{NAME}: {got}, expected {expected}; torch.nn.attention.restore_flash_attention_impl() takes PyTorch's own "
        "again"
    )
