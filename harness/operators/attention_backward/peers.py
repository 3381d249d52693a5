"""Attention's backward pass as libraries have it, by the name of the peer.

Those that offer it as a function get the launch's own o and lse: cuDNN and FlashAttention-2 by PyTorch's operators,
flash-attn 4 by its own. The others, FlexAttention and plain PyTorch, run a forward pass when they are bound, and what
they keep of it.
"""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from harness.operators.attention.libraries import LIBRARIES
from harness.operators.attention.peers import compiled_flex, sdpa_math
from harness.operators.attention_backward.problem import Problem
from harness.operators.errors import Unsupported
from harness.operators.protocol import Peer, Scalars, Tensors

if TYPE_CHECKING:
    from torch import Tensor

Bound = Callable[[], Any]
"""Returns dq, dk and dv."""
Make = Callable[[Tensors, float], Bound]


def peer(name: str, problem: Problem) -> Peer:
    """A library's gradients. Raises Unsupported, ImportError."""
    if name.startswith("sdpa") and problem.causal and problem.seq_q != problem.seq_kv:
        raise Unsupported("SDPA aligns its causal mask top-left when the lengths differ; ours is bottom-right")
    make = _MAKERS[name](problem)

    def bind(tensors: Tensors, scalars: Scalars) -> Callable[[], dict[str, Any]]:
        bound = make(tensors, scalars["scale"])
        return lambda: dict(zip(("dq", "dk", "dv"), bound(), strict=True))

    return Peer(bind)


def _of_torch(problem: Problem, *, library: str) -> Make:
    """By PyTorch's operators of a library, flash or cudnn, which differ in the order of their arguments."""
    import torch

    name = f"_scaled_dot_product_{library}_attention"
    forward, backward = getattr(torch.ops.aten, name), getattr(torch.ops.aten, f"{name}_backward")
    is_cudnn = library == "cudnn"

    def make(tensors: Tensors, scale: float) -> Bound:
        q, k, v, o, do = (tensors[name] for name in ("q", "k", "v", "o", "do"))
        bias = (None, True) if is_cudnn else ()  # without one, with LSE
        _, lse, *kept = forward(q, k, v, *bias, 0.0, problem.causal, False, scale=scale)
        mask, sequences, seed = (0.0, problem.causal), kept[:4], kept[4:6]
        last = (*seed, None, *sequences, *mask) if is_cudnn else (*sequences, *mask, *seed)
        return functools.partial(backward, do, q, k, v, o, tensors["lse"].view(lse.shape), *last, scale=scale)

    return make


def _of_graph(attend: Callable[[Tensor, Tensor, Tensor, float], Tensor]) -> Make:
    """Autograd's backward pass of a forward pass that ran when it was bound."""
    import torch

    def make(tensors: Tensors, scale: float) -> Bound:
        q, k, v = (tensors[name].detach().requires_grad_() for name in ("q", "k", "v"))
        with torch.enable_grad():
            o = attend(q, k, v, scale)
        return lambda: torch.autograd.grad(o, (q, k, v), tensors["do"], retain_graph=True)

    return make


def _sdpa_math(problem: Problem) -> Make:
    attend = sdpa_math(problem)
    return _of_graph(lambda q, k, v, scale: attend(q, k, v, scale)[0])


def _flex(problem: Problem) -> Make:
    from torch._functorch import config

    compiled = compiled_flex(problem)
    make = _of_graph(lambda q, k, v, scale: compiled(q, k, v, scale=scale))

    def compiled_for_many_calls(tensors: Tensors, scale: float) -> Bound:
        with config.patch(donated_buffer=False):  # else the first backward pass consumes what the others need
            call = make(tensors, scale)
            call()
        return call

    return compiled_for_many_calls


def _fa4(problem: Problem, *, deterministic: bool) -> Make:
    """Its functions take (batch, seq, heads, dim); a transposed view costs nothing. It writes into the launch's own
    outputs. What it compiles is kept on disk for other processes, if its own switch says nothing else."""
    os.environ.setdefault("FLASH_ATTENTION_CUTE_DSL_CACHE_ENABLED", "1")
    backward = importlib.import_module(f"{LIBRARIES['fa4'].module}.interface")._flash_attn_bwd

    def make(tensors: Tensors, scale: float) -> Bound:
        turned = {name: tensor.transpose(1, 2) for name, tensor in tensors.items() if name != "lse"}
        inputs = (*(turned[name] for name in ("q", "k", "v", "o", "do")), tensors["lse"])
        options = {"softmax_scale": scale, "causal": problem.causal, "deterministic": deterministic}
        outputs = {name: turned[name] for name in ("dq", "dk", "dv")}

        def call() -> tuple[Tensor, ...]:
            return tuple(gradient.transpose(1, 2) for gradient in backward(*inputs, **options, **outputs)[:3])

        return call

    return make


_MAKERS: dict[str, Callable[[Problem], Make]] = {
    "sdpa_flash": functools.partial(_of_torch, library="flash"),
    "sdpa_cudnn": functools.partial(_of_torch, library="cudnn"),
    "sdpa_math": _sdpa_math,
    "flex": _flex,
    "fa4": functools.partial(_fa4, deterministic=False),
    "fa4_deterministic": functools.partial(_fa4, deterministic=True),
}
