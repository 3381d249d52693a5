"""Gradients without a harness around them: tensors in, tensors out, and how autograd comes to them."""

from __future__ import annotations

import struct
from collections.abc import Hashable, Sequence
from functools import cache, lru_cache
from typing import Any

import torch
from torch import Tensor, library
from torch.compiler import is_compiling

from harness.build.cuda import CudaVariant
from harness.build.loading import load
from harness.catalog import techniques, tiles
from harness.catalog.cases import Case
from harness.operators.attention import validate
from harness.operators.attention.workspaces import Workspaces
from harness.operators.attention_backward.arguments import POINTERS, SCRATCH, AttentionBackwardArgs, structure
from harness.operators.attention_backward.ladders import hopper
from harness.operators.attention_backward.problem import Problem
from harness.operators.errors import LaunchError, Unsupported
from harness.operators.memory import ALIGNMENT, check_memory, reach
from harness.rows.results import slug_of

Gradients = tuple[Tensor, Tensor, Tensor]
MOST_PROBLEMS = 1024
"""Problems whose kernels are remembered, and kinds of call and of launch."""
_launches: dict[Hashable, Launch] = {}
TWICE = "flash_attention: got a gradient of its gradient, expected first-order gradients only; pass create_graph=False"


def is_asked_for(q: Any, k: Any, v: Any) -> bool:
    """Whether they are tensors and one of them requires a gradient."""
    try:
        asked = q.requires_grad or k.requires_grad or v.requires_grad
    except AttributeError:
        return False
    return asked and all(isinstance(one, Tensor) for one in (q, k, v))


def check_supported(q: Tensor, k: Tensor, causal: bool, scale: float | None, deterministic: bool) -> None:
    """Raises Unsupported, which says why, where no kernel has the gradients of such a call; ValueError and TypeError
    for what is no mask or scale."""
    validate.check_options(1.0 if scale is None else scale, causal, any_sign=True)
    _check_kind(q.shape, k.shape, q.dtype, bool(causal), bool(deterministic))


@lru_cache(MOST_PROBLEMS)
def _check_kind(q: torch.Size, k: torch.Size, dtype: torch.dtype, causal: bool, deterministic: bool) -> None:
    """Raises Unsupported for calls of this kind. What is no call at all, the forward pass refuses."""
    if len(q) == len(k) == 4 and dtype in validate.DTYPES and q.numel() and k.numel():
        case_of(_problem(q, k, dtype, causal), deterministic, None)


def attach(operator: Any) -> None:
    """Gives a custom operator (q, k, v, causal, scale, deterministic) -> (o, lse) its gradients with respect to q, k
    and v. Gradients of gradients raise NotImplementedError."""
    operator.register_autograd(of_call, setup_context=keep)


def keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    """Remembers in autograd's context what `of_call` needs of a call (q, k, v, causal, scale, deterministic)."""
    q, k, v, ctx.causal, ctx.scale, ctx.deterministic = inputs
    ctx.save_for_backward(q, k, v, *output)
    ctx.set_materialize_grads(False)


def of_call(ctx: Any, d_o: Tensor | None, d_lse: Tensor | None) -> tuple[Tensor | None, ...]:
    """The gradients of a call: by the operator below where something traces them, else without its dispatch."""
    if d_o is None and d_lse is None:
        return (None,) * 6
    traced = is_compiling() or torch._C._len_torch_dispatch_stack() or torch.is_grad_enabled()
    passes: Any = _operator if traced else _passes
    return (*passes(d_o, d_lse, *ctx.saved_tensors, ctx.causal, ctx.scale, ctx.deterministic), None, None, None)


def _passes(
    d_o: Tensor | None, d_lse: Tensor | None, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, causal: bool,
    scale: float | None, deterministic: bool,
) -> Gradients:  # fmt: skip
    options = (lse, causal, scale, deterministic)
    if d_lse is None:
        assert d_o is not None
        return gradients(d_o, q, k, v, o, *options)
    dq, dk, _ = gradients(*_for_lse(d_lse, q, k, v), *options)
    if d_o is None:
        return dq, dk, torch.zeros_like(v)
    of_o = gradients(d_o, q, k, v, o, *options)
    return of_o[0] + dq, of_o[1] + dk, of_o[2]


@library.custom_op(
    "twinkernels::flash_attention_backward",
    mutates_args=(),
    schema="(Tensor? d_o, Tensor? d_lse, Tensor q, Tensor k, Tensor v, Tensor o, Tensor lse, bool causal, "
    "float? scale, bool deterministic) -> (Tensor, Tensor, Tensor)",
)
def _operator(*given: Any) -> Gradients:
    return _passes(*given)


@_operator.register_fake
def _(
    d_o: Tensor | None, d_lse: Tensor | None, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, causal: bool,
    scale: float | None, deterministic: bool,
) -> Gradients:  # fmt: skip
    return torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)


def _refuse(ctx: Any, *gradients: Tensor) -> Any:
    raise NotImplementedError(TWICE)


_operator.register_autograd(_refuse)


def _for_lse(d_lse: Tensor, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """do, q, k, v and o whose dq and dk are those of lse. A kernel computes dS = P (do v^T - rowsum(do o)), and of lse
    dS is P d_lse: columns 0 and 1 of do have d_lse and what rounding leaves of it, those of v ones, and o is 0."""
    high = d_lse.to(q.dtype)
    d_o, ones = torch.zeros_like(q), torch.zeros_like(v)
    d_o[..., 0], d_o[..., 1] = high, d_lse - high
    ones[..., :2] = 1
    return d_o, q, k, ones, torch.zeros_like(q)


def gradients(
    d_o: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, causal: bool, scale: float | None,
    deterministic: bool,
) -> Gradients:  # fmt: skip
    """dq, dk and dv of a call of `flash_attention` that gave o and lse, in the storage order of q, k and v. Raises what
    `launch` raises."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    if not (q.numel() and k.numel()):
        return torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    if scale <= 0:  # as in the forward pass: kernels take a positive scale
        sign, size = (-1.0, -scale) if scale else (0.0, 1.0)
        dq, dk, dv = launch(d_o, q * sign, k, v, o, lse, causal, size, deterministic)
        return dq * sign, dk, dv
    return launch(d_o, q, k, v, o, lse, causal, scale, deterministic)


def launch(
    d_o: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, causal: bool, scale: float,
    deterministic: bool,
) -> Gradients:  # fmt: skip
    """dq, dk and dv on the current stream of q's device, without waiting for it. Scratch memory comes from PyTorch's
    allocator. Raises Unsupported, CompileError, and LaunchError with CUDA's own words."""
    given = (q, k, v, o, d_o)
    key = (*((one.shape, one.stride()) for one in given), q.dtype, q.device, causal, scale, deterministic)
    call = _launches.get(key)
    if call is not None and call.takes(given):
        return call(lse, *given)
    laid_out = {name: _laid_out(name, one) for name, one in zip(Launch.INPUTS, given, strict=True)}
    call = Launch({**laid_out, "lse": lse}, (q, k, v), causal, scale, deterministic)
    if all(one is tensor for one, tensor in zip(given, laid_out.values(), strict=True)):
        if len(_launches) >= MOST_PROBLEMS:
            _launches.clear()
        _launches[key] = call
    return call(lse, *laid_out.values())


class Launch:
    """All launches of one kind: the kernel, and its arguments but for addresses."""

    INPUTS = ("q", "k", "v", "o", "do")
    ADDRESSES = struct.Struct(f"{len(POINTERS)}P{len(SCRATCH) + 1}P")  # the first fields of AttentionBackwardArgs

    def __init__(
        self, tensors: dict[str, Tensor], given: Gradients, causal: bool, scale: float, deterministic: bool
    ) -> None:
        """`tensors`: what kernels read. `given`: q, k and v, whose storage order the gradients have."""
        q, device = tensors["q"], tensors["q"].device
        self.problem, self.gpu = _problem(q.shape, tensors["k"].shape, q.dtype, causal), device.index
        with torch.cuda.device(device):
            name = torch.cuda.get_device_name(device)
            self.kernel = _kernel(self.gpu, case_of(self.problem, deterministic, name))
        outputs = [torch.empty_like(one, device="meta", requires_grad=False) for one in given]
        nothing = torch.empty(0, device="meta")  # at address 0, so that addresses of scratch memory are offsets
        args = structure({**tensors, **dict(zip(("dq", "dk", "dv"), outputs, strict=True))}, {"scale": scale}, nothing)
        assert AttentionBackwardArgs.q_stride.offset == self.ADDRESSES.size
        self.rest = bytes(args)[self.ADDRESSES.size :]
        self.offsets = tuple(getattr(args, name) or 0 for name in SCRATCH)
        self.outputs = [(tuple(one.shape), one.stride()) for one in outputs]
        self.options = {"dtype": q.dtype, "device": device}
        self.reaches = tuple(reach(tensors[name]) for name in self.INPUTS)

    def takes(self, tensors: Sequence[Tensor]) -> bool:
        """Whether what may differ between calls of a kind is as kernels need it: memory, and where it begins."""
        return all(
            one.storage_offset() * 2 + reach <= one.untyped_storage().nbytes()
            and (address := one.data_ptr())
            and not (address % ALIGNMENT or one.is_neg())
            for one, reach in zip(tensors, self.reaches, strict=True)
        )

    def __call__(self, lse: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, d_o: Tensor) -> Gradients:
        dq, dk, dv = (torch.empty_strided(*one, **self.options) for one in self.outputs)
        scratch = torch.empty_strided((self.kernel.scratch_bytes,), (1,), dtype=torch.uint8, device=q.device)
        begin = scratch.data_ptr()
        addresses = [one.data_ptr() for one in (q, k, v, o, d_o, lse, dq, dk, dv)]
        addresses += (begin + offset for offset in self.offsets)
        if torch._C._cuda_getDevice() == self.gpu:
            self._launch(addresses)
        else:
            with torch.cuda.device(self.gpu):
                self._launch(addresses)
        return dq, dk, dv

    def _launch(self, addresses: list[int]) -> None:
        stream = torch._C._cuda_getCurrentRawStream(self.gpu)
        workspace, _owner = 0, None
        if self.kernel.workspace_bytes:
            workspace, _owner = _workspaces(self.gpu).of(stream, self.kernel.workspace_bytes)
        if code := self.kernel.entry(self.ADDRESSES.pack(*addresses, workspace) + self.rest, stream):
            slug, error = self.problem.slug, torch.cuda.CudaError(code)
            raise LaunchError(f"gradients of flash_attention, {slug}: {error}", code)


def _laid_out(name: str, tensor: Tensor) -> Tensor:
    """The tensor, or a copy where its strides or its address are none that a kernel takes: the gradient of a sum is
    one number, expanded. Raises ValueError where its memory was freed after the forward pass."""
    tensor = tensor.resolve_neg()
    check_memory(name, tensor)
    try:
        validate.check_layout(name, tensor, by_tma=True)
    except ValueError:
        return tensor.clone(memory_format=torch.contiguous_format)
    return tensor


def _problem(q: torch.Size, k: torch.Size, dtype: torch.dtype, causal: bool) -> Problem:
    batch, heads, seq_q, head_dim = q
    return Problem(batch, heads, k[1], seq_q, k[2], head_dim, validate.DTYPES[dtype], causal)


NOT_YET = {"eighty_rows", "ordered_halves"}
"""Rungs that `flash_attention` does not train with: no GPU has run their present form on random problems yet."""


@lru_cache(MOST_PROBLEMS)
def case_of(problem: Problem, deterministic: bool, gpu: str | None) -> Case:
    """The last rung in CUDA outside NOT_YET that takes the problem, at the tile tuned for the GPU of that name. It is
    one whose bits repeat if `deterministic`, else one whose bits may vary. Raises Unsupported with the first reason."""
    reason = ""
    for rung in hopper.TECHNIQUES[::-1]:
        if rung.name in NOT_YET or rung.repeats != deterministic:
            continue
        best = tiles.best_tile(rung.name, "cuda", problem, gpu and slug_of({"name": gpu}))
        tile = best or techniques.reference_tile(rung, problem.tile_key)
        declined = techniques.unsupported(rung, "cuda", problem, tile)
        if declined is None:
            return Case("flash_attention", rung.name, "cuda", problem, tile)
        reason = reason or f"{rung.name}: {declined}"
    raise Unsupported(
        f"gradients of flash_attention: no kernel takes this problem ({reason}); pass detached tensors, or use "
        "torch.nn.functional.scaled_dot_product_attention"
    )


@cache
def _workspaces(gpu: int) -> Workspaces:
    """Apart from those of the forward pass, whose kernels leave data behind their counters."""
    return Workspaces()


@lru_cache(MOST_PROBLEMS)
def _kernel(device: int, case: Case) -> CudaVariant:
    kernel = load(case)
    assert isinstance(kernel, CudaVariant)
    return kernel
