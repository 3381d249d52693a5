"""Attention as libraries have it, by its backend's name."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from harness.operators.attention.libraries import LIBRARIES
from harness.operators.attention.problem import Problem
from harness.operators.errors import Unsupported
from harness.operators.protocol import Peer, Scalars, Tensors

if TYPE_CHECKING:
    from torch import Tensor

    from harness.catalog.cases import Case

Attend = Callable[["Tensor", "Tensor", "Tensor", float], Any]
"""(q, k, v, scale) -> (o, lse or None)."""


def peer(name: str, problem: Problem) -> Peer:
    """A library's attention, with log-sum-exp where it can write it. Raises Unsupported, ImportError."""
    if name == "fa3" and problem.dtype == "fp16":
        raise Unsupported("fa3-fwd is built without kernels for fp16; use bf16")
    if name.startswith("sdpa") and problem.causal and problem.seq_q != problem.seq_kv:
        raise Unsupported("SDPA aligns its causal mask top-left when the lengths differ; ours is bottom-right")
    attend = _MAKERS[name](problem)

    def bind(tensors: Tensors, scalars: Scalars) -> Callable[[], dict[str, Any]]:
        q, k, v = (tensors[which].transpose(1, 2) if name in _FLASH else tensors[which] for which in "qkv")
        bound = functools.partial(attend, q, k, v, scalars["scale"])

        def call() -> dict[str, Any]:
            o, lse = bound()
            return {"o": o, "lse": lse}

        return call

    label = "no LSE" if name == "sdpa_math" else ""
    return Peer(bind, label)


def kernel(name: str, problem: Problem) -> Case | None:
    """The kernel that `flash_attention` launches on this GPU; None for a library."""
    if name != "flash_attention":
        return None
    import torch

    from harness.operators.attention.api import case_of

    return case_of(problem, torch.cuda.get_device_properties("cuda"))


def _sdpa_flash(problem: Problem) -> Attend:
    import torch

    flash = torch.ops.aten._scaled_dot_product_flash_attention
    return lambda q, k, v, scale: flash(q, k, v, 0.0, problem.causal, False, scale=scale)[:2]


def _sdpa_cudnn(problem: Problem) -> Attend:
    import torch

    cudnn = torch.ops.aten._scaled_dot_product_cudnn_attention
    # Its LSE is written, but of another shape: (batch, heads, seq_q, 1).
    return lambda q, k, v, scale: (cudnn(q, k, v, None, True, 0.0, problem.causal, False, scale=scale)[0], None)


def sdpa_math(problem: Problem) -> Attend:
    """PyTorch's own operations, one after another."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention as sdpa

    grouped = problem.heads != problem.heads_kv

    def attend(q: Tensor, k: Tensor, v: Tensor, scale: float) -> tuple[Tensor, None]:
        with sdpa_kernel(SDPBackend.MATH):
            return sdpa(q, k, v, is_causal=problem.causal, scale=scale, enable_gqa=grouped), None

    return attend


def compiled_flex(problem: Problem) -> Callable[..., Any]:
    """FlexAttention for this problem, compiled anew: (q, k, v, scale=..., return_lse=...)."""
    import torch
    from torch.nn.attention import flex_attention as flex

    mask = None
    if problem.causal:
        shift = problem.seq_kv - problem.seq_q
        mask = flex.create_block_mask(
            lambda b, h, i, j: j <= i + shift, None, None, problem.seq_q, problem.seq_kv, device="cuda"
        )
    torch._dynamo.reset()  # one problem per compilation: no shape is generalized over an earlier one
    compiled = torch.compile(flex.flex_attention, mode="max-autotune-no-cudagraphs", dynamic=False)
    return functools.partial(compiled, block_mask=mask, enable_gqa=problem.heads != problem.heads_kv)


def _flex(problem: Problem) -> Attend:
    compiled = compiled_flex(problem)

    def attend(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Any:
        return compiled(q, k, v, scale=scale, return_lse=True)

    return attend


def _flash(problem: Problem, *, backend: str) -> Attend:
    """FlashAttention's own functions take (batch, seq, heads, dim): `peer` makes the views once, not in every call."""
    attend = importlib.import_module(LIBRARIES[backend].module).flash_attn_func
    with_lse = "return_lse" if backend == "fa4" else "return_attn_probs"
    options: dict[str, Any] = {"causal": problem.causal, with_lse: True}
    if backend == "fa3" and problem.seq_q < problem.seq_kv:
        options["num_splits"] = 0  # its own choice; the default is not to split the keys

    def call(q: Tensor, k: Tensor, v: Tensor, scale: float) -> tuple[Tensor, Tensor]:
        out, lse, *_ = attend(q, k, v, softmax_scale=scale, **options)
        return out.transpose(1, 2), lse

    return call


def _own(problem: Problem) -> Attend:
    from harness.operators.attention.api import flash_attention

    return lambda q, k, v, scale: flash_attention(q, k, v, causal=problem.causal, scale=scale)


_FLASH = ("fa2", "fa3", "fa4")
_MAKERS: dict[str, Callable[[Problem], Attend]] = {
    "sdpa_flash": _sdpa_flash,
    "sdpa_cudnn": _sdpa_cudnn,
    "sdpa_math": sdpa_math,
    "flex": _flex,
    "flash_attention": _own,
    **{backend: functools.partial(_flash, backend=backend) for backend in _FLASH},
}
