"""Library peers: attention as others wrote it, by its backend's name."""

from __future__ import annotations

import functools
import importlib
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from harness.catalog.cases import Case
from harness.variants import fa3_library
from harness.variants.errors import Unsupported
from harness.variants.libraries import LIBRARIES
from harness.variants.variant import Call, Variant

if TYPE_CHECKING:
    from torch import Tensor


class PeerVariant(Variant):
    """A library's attention, with log-sum-exp where it can write it."""

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        p = case.problem
        self.library = None
        if case.backend == "fa3" and fa3_library.path():
            if p.dtype != "bf16" or p.head_dim not in fa3_library.HEAD_DIMS:
                raise Unsupported(f"the library that {fa3_library.VARIABLE} names takes bf16 and head_dim 64, 128, 256")
            self.library = fa3_library
            self.compiler = {"front_end": fa3_library.build_info(), "ptxas": "unknown", "flags": ""}
            return
        start = time.perf_counter()
        if case.backend.startswith("sdpa") and p.causal and p.seq_q != p.seq_kv:
            raise Unsupported("SDPA aligns its causal mask top-left when the lengths differ; ours is bottom-right")
        self.attend: Callable[..., tuple[Tensor, Tensor | None]] = getattr(self, f"_{case.backend}")()
        self.compile_s = time.perf_counter() - start if case.backend == "flex" else None

    def launch(self, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, *, scale: float, causal: bool) -> None:
        out, out_lse = self.bind(q, k, v, o, lse, scale=scale, causal=causal)()
        o.copy_(out)
        if out_lse is not None:
            lse.copy_(out_lse.reshape(lse.shape))

    def bind(self, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, *, scale: float, causal: bool) -> Call:
        self._check(q, k, v, o, lse, scale, causal)
        if self.library:
            return self.library.bind(q, k, v, o, lse, scale=scale, causal=causal)
        return functools.partial(self.attend, q, k, v, scale)

    def _sdpa_flash(self) -> Callable[..., Any]:
        import torch

        causal = self.problem.causal
        flash = torch.ops.aten._scaled_dot_product_flash_attention
        return lambda q, k, v, scale: flash(q, k, v, 0.0, causal, False, scale=scale)[:2]

    def _sdpa_cudnn(self) -> Callable[..., Any]:
        import torch

        causal = self.problem.causal
        cudnn = torch.ops.aten._scaled_dot_product_cudnn_attention
        return lambda q, k, v, scale: cudnn(q, k, v, None, True, 0.0, causal, False, scale=scale)[:2]

    def _sdpa_math(self) -> Callable[..., Any]:
        from torch.nn.attention import SDPBackend, sdpa_kernel
        from torch.nn.functional import scaled_dot_product_attention as sdpa

        self.label = "no LSE"
        causal, grouped = self.problem.causal, self.problem.heads != self.problem.heads_kv

        def attend(q: Tensor, k: Tensor, v: Tensor, scale: float) -> tuple[Tensor, None]:
            with sdpa_kernel(SDPBackend.MATH):
                return sdpa(q, k, v, is_causal=causal, scale=scale, enable_gqa=grouped), None

        return attend

    def _flex(self) -> Callable[..., Any]:
        import torch
        from torch.nn.attention import flex_attention as flex

        p = self.problem
        mask = None
        if p.causal:
            shift = p.seq_kv - p.seq_q
            mask = flex.create_block_mask(
                lambda b, h, i, j: j <= i + shift, None, None, p.seq_q, p.seq_kv, device="cuda"
            )
        torch._dynamo.reset()  # one problem per compilation: no shape is generalized over an earlier one
        compiled = torch.compile(flex.flex_attention, mode="max-autotune-no-cudagraphs", dynamic=False)
        grouped = p.heads != p.heads_kv

        def attend(q: Tensor, k: Tensor, v: Tensor, scale: float) -> tuple[Tensor, Tensor]:
            return compiled(q, k, v, block_mask=mask, scale=scale, enable_gqa=grouped, return_lse=True)

        return attend

    def _flash(self) -> Callable[..., Any]:
        """FlashAttention's own functions take (batch, seq, heads, dim); a transposed view costs nothing."""
        attend = importlib.import_module(LIBRARIES[self.case.backend].module).flash_attn_func
        with_lse = "return_lse" if self.case.backend == "fa4" else "return_attn_probs"
        options = {"causal": self.problem.causal, with_lse: True}

        def call(q: Tensor, k: Tensor, v: Tensor, scale: float) -> tuple[Tensor, Tensor]:
            out, lse, *_ = attend(*(tensor.transpose(1, 2) for tensor in (q, k, v)), softmax_scale=scale, **options)
            return out.transpose(1, 2), lse

        return call

    _fa2 = _fa3 = _fa4 = _flash
