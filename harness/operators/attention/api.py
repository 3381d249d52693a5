"""The flagships without a harness around them: tensors in, tensors out.

What a call needs is worked out once for each kind of call (shapes, strides, dtypes, devices, mask, scale) and looked up
from then on; a later call of the same kind reads addresses, allocates its outputs and launches.
"""

import math
import struct
from collections.abc import Callable, Hashable
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.compiler import is_compiling

from harness.build.cuda import CudaVariant
from harness.build.loading import load
from harness.catalog import techniques
from harness.catalog.cases import Case
from harness.operators.attention import validate, waves
from harness.operators.attention.arguments import AttentionArgs, structure
from harness.operators.attention.problem import Problem
from harness.operators.attention.workspaces import Workspaces
from harness.operators.attention_backward import api as backward
from harness.operators.errors import LaunchError
from harness.operators.memory import ALIGNMENT, check_address, check_memory, reach

FLAGSHIP = techniques.get("attention/flagship")
DECODE = techniques.get("attention/flagship_decode")
SHORT_FETCHES = techniques.get("attention/short_fetches")
FIVE_STACKS = 5 * 1024
"""Bits of the memory bus of an H100, where DECODE is recorded ahead of Gluon's kernel, whose fetches are short. On an
H200, whose bus is wider, SHORT_FETCHES is ahead of both."""

Outputs = tuple[Tensor, Tensor]
Call = Callable[[Tensor, Tensor, Tensor], Outputs]

_empty = torch._C._dynamo.guards._empty_strided_cuda
"""(sizes, strides, dtype) -> a tensor of the current GPU: what compiled code allocates by, in half the time of
torch.empty_strided."""

_calls: dict[Hashable, Call] = {}
MOST_CALLS = 4096
"""Kinds of call that are remembered; when there are more, all are forgotten."""


def flash_attention(
    q: Tensor, k: Tensor, v: Tensor, *, causal: bool = False, scale: float | None = None, deterministic: bool = False
) -> Outputs:
    """softmax(scale * q k^T) v on a Hopper GPU: (o, lse). By the ladder's flagship; where `waves.decodes` expects less
    time, by the decode ladder's, which cuts the keys into parts for few queries.

    q: (batch, heads, seq_q, head_dim); k, v: (batch, heads_kv, seq_kv, head_dim), of one dtype, fp16 or bf16, head_dim
    64, 128 or 256, heads a multiple of heads_kv, the last dimension contiguous and the other strides multiples of 16
    bytes. K and V may both be expanded over heads. `causal` is aligned bottom right: query i sees key j when
    j <= i + seq_kv - seq_q. `scale`: head_dim ** -0.5 where it is None; 0 or negative costs a copy of q.
    o: the shape, dtype and storage order of q. lse: (batch, heads, seq_q) fp32, the natural logarithm of the sum of
    exp(scale * q.k); -inf, and 0 in o, for a row that sees no key or whose scores are all -inf; NaN for one with a NaN
    among its scores. Under autocast other dtypes are cast.

    Gradients of o and lse with respect to q, k and v come from the last rung of attention_backward that takes the
    problem; with `deterministic`, or under torch.use_deterministic_algorithms, from the last one whose bits repeat.
    Those of lse cost as much as those of o again. There are none of gradients, and none at head_dim 256.

    Launched on the current stream of q's device, without waiting for it. Calls on different streams, and those captured
    into a CUDA graph, share no counter. The first call for a dtype, head_dim, mask and tile builds a kernel, or finds
    it in the build folder. torch.compile, and whatever else traces a call, sees one operator,
    twinkernels::flash_attention.

    Raises TypeError and ValueError that name argument, what was got and what is expected; NotImplementedError for one
    with a tangent (forward-mode differentiation); Unsupported and CompileError where no kernel can be built, also of a
    gradient that a call asks for; LaunchError with CUDA's own words.
    """
    compiling = is_compiling()
    if not compiling and forward_ad._current_level >= 0:
        validate.check_no_tangent({"q": q, "k": k, "v": v})
    if compiling or torch._C._len_torch_dispatch_stack():
        return _operator(*_cast(q, k, v), bool(causal), scale, _repeats(deterministic))
    if torch.is_grad_enabled() and backward.is_asked_for(q, k, v):
        q, k, v = _cast(q, k, v)
        backward.check_supported(q, k, causal, scale, _repeats(deterministic))
        return _Differentiable.apply(q, k, v, bool(causal), scale, _repeats(deterministic))
    return _attend(q, k, v, causal, scale)


def _repeats(deterministic: bool) -> bool:
    """Whether bits of gradients must repeat, because this call or PyTorch's own switch says so."""
    return bool(deterministic) or torch.are_deterministic_algorithms_enabled()


def _attend(q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float | None) -> Outputs:
    key: Hashable = None
    try:
        key = (
            q.shape, q.stride(), q.dtype, q.device,
            k.shape, k.stride(), k.dtype, k.device,
            v.shape, v.stride(), v.dtype, v.device,
            causal, type(causal), scale, type(scale),
        )  # fmt: skip
        call = _calls.get(key)
    except (AttributeError, TypeError, RuntimeError):  # something without strides, or a scale without a hash
        call = None
    if call is None:
        cast = _cast(q, k, v)
        if any(one is not given for one, given in zip(cast, (q, k, v), strict=True)):
            return _attend(*cast, causal, scale)
        call = _plan(q, k, v, causal, scale)
        if len(_calls) >= MOST_CALLS:
            _calls.clear()
        _calls[key] = call
    return call(q, k, v)


@torch.library.custom_op(
    "twinkernels::flash_attention",
    mutates_args=(),
    schema="(Tensor q, Tensor k, Tensor v, bool causal, float? scale, bool deterministic) -> (Tensor, Tensor)",
)
def _operator(q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float | None, deterministic: bool) -> Outputs:
    return _attend(q, k, v, causal, scale)


@_operator.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float | None, deterministic: bool) -> Outputs:
    return torch.empty_like(q), q.new_empty(q.shape[:3], dtype=torch.float32)


backward.attach(_operator)


class _Differentiable(torch.autograd.Function):
    """The same for a call that nothing traces: the host takes less time over it than over a custom operator."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Outputs:
        output = _attend(*inputs[:5])
        backward.keep(ctx, inputs, output)
        return output

    backward = staticmethod(backward.of_call)


def _cast(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The tensors as autocast wants them: in its dtype where one is fp32, or where they differ."""
    tensors = (q, k, v)
    if not all(isinstance(one, Tensor) for one in tensors) or not torch.is_autocast_enabled(q.device.type):
        return tensors
    if q.dtype in validate.DTYPES and q.dtype == k.dtype == v.dtype:
        return tensors
    dtype = torch.get_autocast_dtype(q.device.type)
    return q.to(dtype), k.to(dtype), v.to(dtype)


def _plan(q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float | None) -> Call:
    """Checks what all calls of a kind have in common, and returns what does them."""
    tensors = {"q": q, "k": k, "v": v}
    validate.check_tensors(tensors, smallest=0, whose=f"for {FLAGSHIP.name}")
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    validate.check_options(scale, causal, any_sign=True)
    if k.stride(1) == v.stride(1) == 0 and k.shape[1] > 1:  # expanded: the heads of q share one of K and V
        tensors |= {"k": (k := k[:, :1]), "v": (v := v[:, :1])}
    if q.numel() and k.numel():
        for name, tensor in tensors.items():
            validate.check_layout(name, tensor, by_tma=True)
    capability = torch.cuda.get_device_capability(q.device) if q.is_cuda else None
    techniques.check_capability(FLAGSHIP, capability)
    if not q.is_cuda:
        raise ValueError(f"q.device: got {q.device}, expected a CUDA GPU (Hopper); move q, k and v with .to('cuda')")
    if not (q.numel() and k.numel()):
        return _no_keys
    if scale <= 0:  # kernels look for the largest score before they scale it
        sign, size = (-1.0, -scale) if scale else (0.0, 1.0)
        return lambda q, k, v: _attend(q * sign, k, v, causal, size)
    return Launch(q, k, v, bool(causal), scale)


def _no_keys(q: Tensor, _k: Tensor, _v: Tensor) -> Outputs:
    return torch.zeros_like(q), torch.full(q.shape[:3], -math.inf, dtype=torch.float32, device=q.device)


class Launch:
    """All launches of one kind: the kernel, and its arguments but for addresses."""

    ADDRESSES = struct.Struct("6P")  # the first fields of AttentionArgs

    def __init__(self, q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float) -> None:
        batch, heads, seq_q, head_dim = q.shape
        self.problem = Problem(batch, heads, k.shape[1], seq_q, k.shape[2], head_dim, validate.DTYPES[q.dtype], causal)
        self.gpu = q.device.index
        with torch.cuda.device(q.device):
            self.kernel = _kernel(self.gpu, case_of(self.problem, torch.cuda.get_device_properties(self.gpu)))
            self.workspace_bytes = self.kernel.workspace_of(self.problem)
        o = torch.empty_like(q, device="meta", requires_grad=False)
        lse = torch.empty(q.shape[:3], device="meta")
        args = structure({"q": q, "k": k, "v": v, "o": o, "lse": lse}, {"scale": scale}, None)
        assert AttentionArgs.q_stride.offset == self.ADDRESSES.size
        self.rest = bytes(args)[self.ADDRESSES.size :]
        self.o = tuple(o.shape), o.stride(), q.dtype
        self.lse = tuple(lse.shape), lse.stride(), torch.float32
        self.reaches = tuple(reach(tensor) for tensor in (q, k, v))

    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> Outputs:
        try:
            addresses = q.data_ptr(), k.data_ptr(), v.data_ptr()
            sound = all(addresses) and not (addresses[0] | addresses[1] | addresses[2]) % ALIGNMENT
            reach_q, reach_k, reach_v = self.reaches
            sound = sound and q.storage_offset() * 2 + reach_q <= q.untyped_storage().nbytes() and not q.is_neg()
            sound = sound and k.storage_offset() * 2 + reach_k <= k.untyped_storage().nbytes() and not k.is_neg()
            sound = sound and v.storage_offset() * 2 + reach_v <= v.untyped_storage().nbytes() and not v.is_neg()
        except RuntimeError:  # no memory, as inside torch.func
            sound = False
        if not sound:
            for name, tensor in {"q": q, "k": k, "v": v}.items():
                check_memory(name, tensor)
                check_address(name, tensor)
        if torch._C._cuda_getDevice() == self.gpu:
            return self._launch(*addresses)
        with torch.cuda.device(self.gpu):
            return self._launch(*addresses)

    def _launch(self, *addresses: int) -> Outputs:
        o, lse = _empty(*self.o), _empty(*self.lse)
        stream = torch._C._cuda_getCurrentRawStream(self.gpu)
        counter, _owner = _counters(self.gpu).of(stream, self.workspace_bytes)
        outputs = o.data_ptr(), lse.data_ptr()
        args = self.ADDRESSES.pack(*addresses, *outputs, counter) + self.rest  # copied by the launch: no call shares it
        if code := self.kernel.entry(args, stream):
            raise LaunchError(f"flash_attention of {self.problem.slug}: {torch.cuda.CudaError(code)}", code)
        return o, lse


@cache
def _counters(gpu: int) -> Workspaces:
    return Workspaces()


def case_of(problem: Problem, gpu: Any) -> Case:
    """The faster flagship at the tile that suits the problem: one case for all problems that share a kernel. `gpu`: its
    properties, as PyTorch gives them."""
    alike = Problem.square(1, 1, 1, problem.head_dim, dtype=problem.dtype, causal=problem.causal)
    technique, tile = FLAGSHIP, waves.fastest(problem, gpu.multi_processor_count)
    if waves.decodes(problem, gpu.multi_processor_count):
        technique = SHORT_FETCHES if gpu.memory_bus_width > FIVE_STACKS else DECODE
        tile = waves.decode_tile(problem)
    return Case("flash_attention", technique.name, "cuda", alike, tile)


@cache
def _kernel(device: int, case: Case) -> CudaVariant:
    """Built the first time, or found in the build folder; loaded once for each GPU of this process."""
    kernel = load(case)
    assert isinstance(kernel, CudaVariant)
    return kernel
